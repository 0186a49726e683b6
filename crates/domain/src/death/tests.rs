use proptest::prelude::*;
use uuid::Uuid;

use super::*;

mod trials;

const LIMIT: usize = 3;

fn process(number: usize) -> ProcessId {
    ProcessId(number as u64)
}

fn suspect(number: usize, deaths: &[usize]) -> Suspect {
    Suspect {
        agentable: AgentableId(Uuid::from_u128(number as u128)),
        deaths: deaths.iter().map(|death| process(*death)).collect(),
        is_open: true,
        is_driven: false,
    }
}

#[test]
fn run_that_died_alone_is_given_up() {
    let run = suspect(1, &[1, 2, 3]);
    assert_eq!(judge(&run, &[], LIMIT, false), Verdict::GiveUp);
    assert_eq!(judge(&run, &[suspect(2, &[4, 5, 6])], LIMIT, false), Verdict::GiveUp, "another one's deaths");
    assert_eq!(judge(&suspect(1, &[1, 1, 2]), &[], LIMIT, false), Verdict::Try, "one process dies once");
}

#[test]
fn run_waits_while_another_may_be_the_cause() {
    let run = suspect(1, &[1, 2, 3]);
    assert_eq!(judge(&run, &[suspect(2, &[3])], LIMIT, false), Verdict::Wait);
    let on_trial = Suspect { is_driven: true, ..suspect(2, &[1, 2, 3]) };
    assert_eq!(judge(&run, &[on_trial], LIMIT, false), Verdict::Wait);
    let ended = Suspect { is_open: false, ..suspect(2, &[3]) };
    assert_eq!(judge(&run, &[ended], LIMIT, false), Verdict::Try, "that one cannot show any more");
    assert_eq!(judge(&run, &[suspect(2, &[3])], LIMIT, true), Verdict::Try, "its user waits");
}

#[test]
fn runs_that_wait_for_each_other_are_tried_in_turn() {
    let (one, other) = (suspect(1, &[1, 2, 3]), suspect(2, &[1, 2, 3]));
    assert_eq!(judge(&one, std::slice::from_ref(&other), LIMIT, false), Verdict::Try);
    assert_eq!(judge(&other, &[one], LIMIT, false), Verdict::Wait);
    let tried = suspect(1, &[1, 2, 3, 4]);
    assert_eq!(judge(&other, std::slice::from_ref(&tried), LIMIT, false), Verdict::Try);
    assert_eq!(judge(&tried, &[other], LIMIT, false), Verdict::Wait, "it was tried already");
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    /// On a process, which may have died without any claim having noticed.
    On(usize),
    Ended,
    GivenUp,
}

#[derive(Debug)]
struct Run {
    is_poison: bool,
    /// Steps until an innocent run ends.
    steps: usize,
    deaths: Vec<ProcessId>,
    killed: usize,
    place: Place,
}

/// Runs on processes that die whenever a poisoned one takes a step. A claim follows the rules of
/// [`claim`](crate::claim).
#[derive(Debug)]
struct World {
    runs: Vec<Run>,
    /// The number of each living process.
    processes: Vec<usize>,
    started: usize,
    turn: usize,
    /// Runs that were cancelled.
    cancels: usize,
    /// Runs that processes died with and that were cancelled before they showed what they are.
    cancelled: usize,
}

impl World {
    fn new(poison: &[bool], processes: usize) -> Self {
        let runs = poison.iter().map(|&is_poison| Run {
            is_poison,
            steps: 3,
            deaths: Vec::new(),
            killed: 0,
            place: Place::Waiting,
        });
        Self {
            runs: runs.collect(),
            processes: (0..processes).collect(),
            started: processes,
            turn: 0,
            cancels: 0,
            cancelled: 0,
        }
    }

    fn is_alive(&self, process: usize) -> bool {
        self.processes.contains(&process)
    }

    fn suspect(&self, number: usize) -> Suspect {
        let run = &self.runs[number];
        let mut deaths = run.deaths.clone();
        let mut is_driven = false;
        if let Place::On(on) = run.place {
            is_driven = self.is_alive(on);
            if !is_driven {
                deaths.push(process(on));
            }
        }
        let is_open = matches!(run.place, Place::Waiting | Place::On(_));
        Suspect { deaths, is_open, is_driven, ..suspect(number, &[]) }
    }

    fn suspects_beside(&self, number: usize) -> Vec<Suspect> {
        (0..self.runs.len())
            .filter(|other| *other != number)
            .map(|other| self.suspect(other))
            .filter(|other| !other.deaths.is_empty())
            .collect()
    }

    fn claim(&mut self, number: usize, slot: usize, has_waited: bool) {
        match self.runs[number].place {
            Place::Ended | Place::GivenUp => return,
            Place::On(on) if self.is_alive(on) => return,
            Place::On(on) => {
                let run = &mut self.runs[number];
                run.deaths.push(process(on));
                run.place = Place::Waiting;
                if run.deaths.len() >= LIMIT {
                    return;
                }
            }
            Place::Waiting => {}
        }
        let on = self.processes[slot];
        let deaths = self.runs[number].deaths.len();
        if deaths >= LIMIT {
            match judge(&self.suspect(number), &self.suspects_beside(number), LIMIT, has_waited) {
                Verdict::Wait => return,
                Verdict::GiveUp => return self.give_up(number),
                Verdict::Try => {}
            }
        }
        let is_suspect = |run: &Run| run.deaths.len() + 1 >= LIMIT;
        let beside = self.runs.iter().any(|run| run.place == Place::On(on) && is_suspect(run));
        if !(is_suspect(&self.runs[number]) && beside) {
            self.runs[number].place = Place::On(on);
        }
    }

    /// The user cancels the run; a worker ends it, and nothing shows what it would have done.
    fn cancel(&mut self, number: usize) {
        if !matches!(self.runs[number].place, Place::Ended | Place::GivenUp) {
            if let Place::On(on) = self.runs[number].place
                && !self.is_alive(on)
            {
                self.runs[number].deaths.push(process(on));
            }
            self.runs[number].place = Place::Ended;
            self.cancels += 1;
            self.cancelled += usize::from(!self.runs[number].deaths.is_empty());
        }
    }

    fn give_up(&mut self, number: usize) {
        let explained = std::mem::take(&mut self.runs[number].deaths);
        self.runs[number].place = Place::GivenUp;
        for run in &mut self.runs {
            run.deaths.retain(|death| !explained.contains(death));
        }
    }

    /// The run commits a step, or kills its process.
    fn act(&mut self, number: usize) {
        let Place::On(on) = self.runs[number].place else { return };
        let Some(slot) = self.processes.iter().position(|process| *process == on) else { return };
        let run = &mut self.runs[number];
        if run.is_poison {
            run.killed += 1;
            self.processes[slot] = self.started;
            self.started += 1;
            return;
        }
        run.deaths.clear();
        run.steps -= 1;
        if run.steps == 0 {
            run.place = Place::Ended;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_poisoned_run_and_no_innocent_one_is_given_up(
        poison in proptest::collection::vec(proptest::bool::weighted(0.3), 1..12),
        processes in 1..4_usize,
        schedule in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_usize, any::<bool>()), 0..200),
        // Whether runs wait for each other for as long as it takes, a while, or not at all.
        patience in 0..3_usize,
        // After which of these, the run is cancelled.
        cancels in proptest::collection::vec(0..200_usize, 0..3),
    ) {
        let mut turn = 0;
        let mut has_waited = || {
            turn += 1;
            patience == 0 || patience == 1 && turn % 3 == 0
        };
        let mut world = World::new(&poison, processes);
        for (run, slot, acts) in schedule {
            let run = run.index(poison.len());
            if acts { world.act(run) } else { world.claim(run, slot % processes, has_waited()) }
            if cancels.contains(&world.turn) {
                world.cancel(run);
            }
            world.turn += 1;
        }
        // From here on everybody gets a turn, in the order that lets the most runs die together.
        for round in 0..poison.len() * 20 {
            for run in 0..poison.len() {
                world.claim(run, (run + round) % processes, has_waited());
            }
            for run in 0..poison.len() {
                world.act(run);
            }
        }
        let poisoned = poison.iter().filter(|is_poison| **is_poison).count();
        let alone = if patience == 2 { LIMIT } else { 2 * LIMIT };
        for run in &world.runs {
            let expected = if run.is_poison { Place::GivenUp } else { Place::Ended };
            // A cancelled run, poisoned or not, has ended.
            let is_cancelled = world.cancels > 0 && run.place == Place::Ended;
            prop_assert!(run.place == expected || is_cancelled, "{:?}", world);
            prop_assert!(run.killed <= alone + 2 * poisoned.saturating_sub(1) + 2 * world.cancelled, "{} {:?}", patience, world);
        }
    }
}
