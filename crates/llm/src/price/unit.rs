//! Billing units, and which units are part of others: cached input is part of the input and is billed only once.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Deserialize;

/// The unit counted once per call.
const CALLS: &str = "requests";

/// A billing unit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Unit {
    /// The unit's name in prices.
    price: Box<str>,
    /// Number of units that a price is for, e.g. 1,000,000.
    per: u64,
    /// Distinguishing properties. A unit with all dimensions of another and more is part of that other.
    dimensions: BTreeMap<Box<str>, Box<str>>,
}

/// All units, by the names of their counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Units(BTreeMap<Box<str>, Unit>);

/// Counts of a call by unit name: `input_tokens`, `cache_read_tokens`, …
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Counts(BTreeMap<Box<str>, Decimal>);

impl Counts {
    /// Adds `count` to the count of `unit`.
    ///
    /// # Errors
    /// [`PriceError::Overflow`] when the sum exceeds the range of a decimal.
    pub(crate) fn add(&mut self, unit: &str, count: Decimal) -> Result<(), PriceError> {
        let so_far = self.0.entry(unit.into()).or_default();
        *so_far = so_far.checked_add(count).ok_or(PriceError::Overflow)?;
        Ok(())
    }

    /// The units with a count above 0.
    #[cfg(test)]
    pub(crate) fn units(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, count)| !count.is_zero()).map(|(unit, _)| &**unit)
    }

    /// Whether no unit was counted, not even with 0.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why counts cannot be priced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PriceError {
    /// A part was counted, but the whole that is billed was not.
    #[error("the usage counts {part} but not {whole}, of which that is a part")]
    MissingWhole {
        /// The missing unit.
        whole: String,
        /// The counted unit.
        part: String,
    },
    /// The parts of a unit add up to more than the unit.
    #[error("the usage counts more of the parts of {whole} than of {whole} itself")]
    PartExceedsWhole {
        /// The unit.
        whole: String,
    },
    /// A count or cost exceeds the range of a decimal.
    #[error("the counts of the usage are larger than any real call's")]
    Overflow,
}

/// A price that may depend on the length of the input.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Flat(Decimal),
    /// Exceeding the start of a tier changes the price of all tokens, not only of those beyond it.
    Tiered {
        base: Decimal,
        tiers: Vec<(u64, Decimal)>,
    },
}

/// Prices in US dollars, by the units' names in prices.
pub(crate) type Amounts = BTreeMap<Box<str>, Amount>;

impl Amount {
    fn at(&self, input: Decimal) -> Decimal {
        match self {
            Self::Flat(price) => *price,
            Self::Tiered { base, tiers } => {
                let crossed = tiers.iter().filter(|(start, _)| input > Decimal::from(*start));
                crossed.max_by_key(|(start, _)| *start).map_or(*base, |(_, price)| *price)
            }
        }
    }
}

impl Unit {
    fn is_part_of(&self, whole: &Self) -> bool {
        self.dimensions.len() > whole.dimensions.len()
            && whole.dimensions.iter().all(|(name, value)| self.dimensions.get(name) == Some(value))
    }

    /// Whether no dimension contradicts the other's.
    fn agrees_with(&self, other: &Self) -> bool {
        self.dimensions.iter().all(|(name, value)| other.dimensions.get(name).is_none_or(|v| v == value))
    }

    /// Whether its dimensions are those of both units combined.
    fn is_join_of(&self, one: &Self, other: &Self) -> bool {
        let mut joined = one.dimensions.clone();
        joined.extend(other.dimensions.clone());
        self.dimensions == joined
    }
}

impl Units {
    /// Whether a unit with that name exists.
    #[cfg(test)]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Cost of `counts` in US dollars: everything is billed once, at the price of the most specific unit that has
    /// one.
    pub(crate) fn cost(&self, amounts: &Amounts, counts: &Counts) -> Result<Decimal, PriceError> {
        let mut priced: Vec<(&str, &Unit, &Amount)> = Vec::new();
        for (name, unit) in &self.0 {
            if let Some(amount) = amounts.get(&unit.price) {
                priced.push((name, unit, amount));
            }
        }
        // Most specific first: the remainder of the others is billed at their own price.
        priced.sort_by_key(|(_, unit, _)| std::cmp::Reverse(unit.dimensions.len()));
        let tiered = priced.iter().any(|(.., amount)| matches!(amount, Amount::Tiered { .. }));
        let input = if tiered { self.count(counts, "input_tokens")? } else { Decimal::ZERO };
        let (mut rests, mut total): (Vec<(&Unit, Decimal)>, _) = (Vec::new(), Decimal::ZERO);
        for (name, unit, amount) in priced {
            let rest = if name == CALLS { Decimal::ONE } else { self.rest(counts, name, unit, &rests)? };
            rests.push((unit, rest));
            let cost = amount.at(input).checked_mul(rest).and_then(|all| all.checked_div(unit.per.into()));
            total = cost.and_then(|cost| total.checked_add(cost)).ok_or(PriceError::Overflow)?;
        }
        Ok(total)
    }

    /// The count of a unit without its parts that are already billed.
    fn rest(
        &self,
        counts: &Counts,
        name: &str,
        unit: &Unit,
        rests: &[(&Unit, Decimal)],
    ) -> Result<Decimal, PriceError> {
        let parts: Decimal =
            rests.iter().filter(|(part, _)| part.is_part_of(unit)).map(|(_, rest)| rest).sum();
        let rest = self.count(counts, name)?.checked_sub(parts).ok_or(PriceError::Overflow)?;
        if rest.is_sign_negative() && !rest.is_zero() {
            return Err(PriceError::PartExceedsWhole { whole: name.to_owned() });
        }
        Ok(rest)
    }

    /// The count of `name`: as reported, or 0. An error if only a part of it was reported.
    fn count(&self, counts: &Counts, name: &str) -> Result<Decimal, PriceError> {
        if let Some(count) = counts.0.get(name) {
            return Ok(*count);
        }
        let Some(unit) = self.0.get(name) else { return Ok(Decimal::ZERO) };
        let reported: Vec<(&str, &Unit)> = counts
            .0
            .iter()
            .filter(|(_, count)| !count.is_zero())
            .filter_map(|(name, _)| self.0.get(name).map(|unit| (&**name, unit)))
            .collect();
        let missing = |part: &str| PriceError::MissingWhole { whole: name.to_owned(), part: part.to_owned() };
        if let Some((part, _)) = reported.iter().find(|(_, part)| part.is_part_of(unit)) {
            return Err(missing(part));
        }
        for (nth, (one_name, one)) in reported.iter().enumerate() {
            for (_, other) in &reported[nth + 1..] {
                let overlap = one.agrees_with(other) && !one.is_part_of(other) && !other.is_part_of(one);
                if overlap && unit.is_join_of(one, other) {
                    return Err(missing(one_name));
                }
            }
        }
        Ok(Decimal::ZERO)
    }
}
