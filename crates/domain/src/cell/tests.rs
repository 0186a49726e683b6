use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn cells(names: &[&str]) -> Result<Cells<usize>, String> {
    Cells::new(names.iter().enumerate().map(|(nth, name)| (name.parse::<CellName>().unwrap(), nth)))
}

#[test]
fn a_shard_belongs_to_the_cell_with_its_range() {
    let cells = cells(&["8000-ffff", "0000-7fff"]).unwrap();
    assert_eq!((*cells.with(Shard(0)), *cells.with(Shard(0x7fff))), (1, 1));
    assert_eq!((*cells.with(Shard(0x8000)), *cells.with(Shard(0xffff))), (0, 0));
    assert_eq!((*cells.home(), cells.others().copied().collect::<Vec<_>>()), (1, vec![0]));
    assert_eq!(*Cells::one("all").with(Shard(7)), "all");
}

#[test]
fn missing_and_repeated_shards_are_named() {
    let error = |ranges: &[&str]| cells(ranges).unwrap_err().to_string();
    assert_eq!(error(&[]), "there is no cell: one with the shards 0000-ffff is the least");
    assert_eq!(error(&["0001-ffff"]), "no cell has the shards 0000-0000");
    assert_eq!(error(&["0000-7fff"]), "no cell has the shards 8000-ffff");
    assert_eq!(error(&["0000-7fff", "9000-ffff"]), "no cell has the shards 8000-8fff");
    assert_eq!(error(&["0000-8fff", "8000-ffff"]), "two cells have the shards 8000-8fff");
    assert_eq!(error(&["0000-ffff", "1000-1fff"]), "two cells have the shards 1000-1fff");
}

fn moved(shards: &str, version: i64, cell: &str) -> MovedShards {
    MovedShards { shards: shards.parse().unwrap(), version, cell: cell.parse().unwrap() }
}

fn number(digits: &str) -> Shard {
    Shard(u16::from_str_radix(digits, 16).unwrap())
}

#[test]
fn moved_shards_are_found_where_they_went() {
    let cells = cells(&["0000-7fff", "8000-ffff"]).unwrap();
    let names = cells.map(|nth| format!("cell {nth}"));
    // Both cells say the same, and the order does not matter.
    let (first, second) = (moved("9000-9fff", 1, "0000-7fff"), moved("9000-90ff", 2, "8000-ffff"));
    assert_eq!(cells.follow(&[first.clone(), second.clone(), first.clone()]).len(), 2);
    assert_eq!(cells.follow(&[second]), [], "nothing new");
    assert_eq!(
        ["8fff", "9000", "90ff", "9100", "9fff", "a000"].map(|shard| names.with(number(shard)).as_str()),
        ["cell 1", "cell 1", "cell 1", "cell 0", "cell 0", "cell 1"]
    );
    assert_eq!(names.home(), "cell 0");
    let texts = |shards: &[ShardRange]| shards.iter().map(ToString::to_string).collect::<Vec<_>>();
    let shards = names.shards();
    assert_eq!(texts(&shards[0]), ["0000-7fff", "9100-9fff"]);
    assert_eq!(texts(&shards[1]), ["8000-90ff", "a000-ffff"]);
    // A cell that the settings do not have.
    assert_eq!(cells.follow(&[moved("0000-ffff", 3, "third")]).len(), 1);
    assert_eq!(*cells.with(number("9100")), 0);
}

#[test]
fn added_cell_gets_shards_by_moves_only() {
    let cells = cells(&["third", "0000-ffff"]).unwrap();
    assert_eq!(*cells.home(), 1);
    assert!(cells.iter().all(|_| *cells.with(number("ffff")) == 1));
    cells.follow(&[moved("ff00-ffff", 1, "third")]);
    assert_eq!((*cells.with(number("ffff")), *cells.with(number("feff"))), (0, 1));
    let error = |names: &[&str]| super::tests::cells(names).unwrap_err().to_string();
    assert_eq!(error(&["third"]), "there is no cell: one with the shards 0000-ffff is the least");
    assert_eq!(error(&["0000-ffff", "b", "c", "b"]), "two cells have the name b");
    for invalid in ["", "8000-7fff", "B", "a cell", &"a".repeat(41)] {
        assert!(invalid.parse::<CellName>().is_err(), "{invalid}");
    }
}

#[test]
fn each_cell_knows_which_shards_it_has() {
    let [low, third]: [CellName; 2] = ["0000-7fff", "third"].map(|name| name.parse().unwrap());
    assert!(has(&low, &[], number("7fff")) && !has(&low, &[], number("8000")));
    assert!(!has(&third, &[], number("7fff")));
    let forth = [moved("7000-7fff", 3, "third")];
    let back = [moved("7000-7fff", 3, "third"), moved("7f00-7fff", 5, "0000-7fff")];
    assert!(has(&third, &forth, number("7fff")) && !has(&low, &forth, number("7fff")));
    assert!(has(&low, &back, number("7fff")) && !has(&third, &back, number("7fff")));
    assert!(!has(&low, &back, number("7000")));
}

#[test]
fn a_range_has_four_hex_digits_twice() {
    assert_eq!("0000-FFFF".parse(), Ok(ShardRange::ALL));
    assert_eq!(ShardRange::ALL.to_string(), "0000-ffff");
    for invalid in ["", "0000", "0-ffff", "0000-fffff", "8000-7fff", "+000-7fff", "0000-7ff€", "0000-7fff-"]
    {
        assert!(invalid.parse::<ShardRange>().is_err(), "{invalid}");
    }
}

proptest! {
    #[test]
    fn every_id_is_in_the_cell_whose_range_has_it(cuts in prop::collection::btree_set(1_u16.., 0..20), id: u128) {
        let first: Vec<u16> = std::iter::once(0).chain(cuts.iter().copied()).collect();
        let last = cuts.iter().map(|cut| cut - 1).chain([u16::MAX]);
        let ranges = first.iter().zip(last).map(|(first, last)| {
            let range = ShardRange { first: Shard(*first), last: Shard(last) };
            (range, range)
        });
        let cells = Cells::new(ranges).unwrap();
        let id = Uuid::from_u128(id);
        let range = cells.of(id);
        prop_assert!(range.first <= shard(id) && shard(id) <= range.last);
    }
}
