use proptest::prelude::*;

use super::super::{Shown, Verdict, verdict};

/// The workers of a run that have died when it is tried alone.
const LIMIT: usize = 3;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    /// On a process with others.
    On(usize),
    /// Alone in a child of this process.
    Alone(usize),
    Ended,
    GivenUp,
}

#[derive(Debug)]
struct Run {
    is_poison: bool,
    /// Steps until an innocent run ends.
    steps: usize,
    deaths: usize,
    /// How many processes it has killed, and how many of its trials ended with their parent.
    killed: usize,
    untold: usize,
    place: Place,
}

/// Runs on processes that die whenever a poisoned one takes a step, and whenever somebody kills them.
#[derive(Debug)]
struct World {
    runs: Vec<Run>,
    /// The number of each living process.
    processes: Vec<usize>,
    started: usize,
}

impl World {
    fn new(poison: &[bool], processes: usize) -> Self {
        let run =
            |&is_poison| Run { is_poison, steps: 3, deaths: 0, killed: 0, untold: 0, place: Place::Waiting };
        Self {
            runs: poison.iter().map(run).collect(),
            processes: (0..processes).collect(),
            started: processes,
        }
    }

    /// The process in this slot dies, and another one starts. Its children hand their runs over, unless they die with it.
    fn die(&mut self, slot: usize, with_children: bool) {
        let died = std::mem::replace(&mut self.processes[slot], self.started);
        self.started += 1;
        for run in &mut self.runs {
            if run.place == Place::On(died) || (run.place == Place::Alone(died) && with_children) {
                run.deaths += 1;
            }
            if run.place == Place::Alone(died) {
                run.untold += 1;
            }
            if [Place::On(died), Place::Alone(died)].contains(&run.place) {
                run.place = Place::Waiting;
            }
        }
    }

    fn claim(&mut self, number: usize, slot: usize) {
        let on = self.processes[slot];
        let run = &mut self.runs[number];
        if run.place == Place::Waiting {
            run.place = if run.deaths < LIMIT { Place::On(on) } else { Place::Alone(on) };
        }
    }

    /// The run commits a step, or kills its process, alone or with its parent.
    fn act(&mut self, number: usize, with_parent: bool) {
        let run = &mut self.runs[number];
        let (Place::On(on) | Place::Alone(on)) = run.place else { return };
        let Some(slot) = self.processes.iter().position(|process| *process == on) else { return };
        if !run.is_poison {
            run.deaths = 0;
            run.steps -= 1;
            if run.steps == 0 {
                run.place = Place::Ended;
            }
            return;
        }
        run.killed += 1;
        match run.place {
            Place::Alone(_) if !with_parent => match verdict(Shown::Kills) {
                Some(Verdict::GiveUp) => run.place = Place::GivenUp,
                other => panic!("{other:?}"),
            },
            _ => self.die(slot, true),
        }
    }

    /// The trial could not be held, or its child was asked to end.
    fn show_nothing(&mut self, number: usize) {
        if let Place::Alone(_) = self.runs[number].place {
            assert_eq!(verdict(Shown::Nothing), Some(Verdict::Wait));
            self.runs[number].place = Place::Waiting;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn trials_give_up_each_poison_and_no_innocent(
        poison in proptest::collection::vec(proptest::bool::weighted(0.3), 1..12),
        processes in 1..4_usize,
        schedule in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_usize, 0..10_u8), 0..400),
    ) {
        let mut world = World::new(&poison, processes);
        for (run, slot, what) in schedule {
            let (run, slot) = (run.index(poison.len()), slot % processes);
            match what {
                0..=3 => world.claim(run, slot),
                4..=6 => world.act(run, false),
                7 => world.act(run, true),
                8 => world.die(slot, slot % 2 == 0),
                _ => world.show_nothing(run),
            }
        }
        // From here on everybody gets a turn, in the order that lets the most runs die together, and nobody else kills anything.
        for round in 0..poison.len() * (LIMIT + 1) {
            for run in 0..poison.len() {
                world.claim(run, (run + round) % processes);
            }
            for run in 0..poison.len() {
                world.act(run, false);
            }
        }
        for run in &world.runs {
            let expected = if run.is_poison { Place::GivenUp } else { Place::Ended };
            prop_assert_eq!(run.place, expected, "{:?}", world);
            prop_assert!(run.killed <= LIMIT + 1 + run.untold, "{:?}", world);
        }
    }
}
