//! What is counted and paid for, and how one count is part of another: cached input is input, and is paid for once.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Deserialize;

/// The unit that is one per call, whatever it used.
const CALLS: &str = "requests";

/// Something that is counted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Unit {
    /// How prices call it.
    price: Box<str>,
    /// Of how many the price is.
    per: u64,
    /// What sets it apart. One whose dimensions are all of another's and more is a part of that other.
    dimensions: BTreeMap<Box<str>, Box<str>>,
}

/// All units, by the name of their count.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Units(BTreeMap<Box<str>, Unit>);

/// How much of each unit a call used, by the unit's name: `input_tokens`, `cache_read_tokens`, …
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Counts(BTreeMap<Box<str>, Decimal>);

impl Counts {
    /// Adds `count` to what is counted of `unit`.
    ///
    /// # Errors
    /// [`PriceError::Overflow`] when the sum is beyond a decimal.
    pub(crate) fn add(&mut self, unit: &str, count: Decimal) -> Result<(), PriceError> {
        let so_far = self.0.entry(unit.into()).or_default();
        *so_far = so_far.checked_add(count).ok_or(PriceError::Overflow)?;
        Ok(())
    }

    /// The units of which there is at least one.
    #[cfg(test)]
    pub(crate) fn units(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, count)| !count.is_zero()).map(|(unit, _)| &**unit)
    }

    /// Whether nothing was counted, not even none of something.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why counts cannot be priced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PriceError {
    /// A part was counted, and the whole is paid for but was not.
    #[error("the usage counts {part} but not {whole}, of which that is a part")]
    MissingWhole {
        /// What is missing.
        whole: String,
        /// What was counted.
        part: String,
    },
    /// Parts are more than their whole.
    #[error("the usage counts more of the parts of {whole} than of {whole} itself")]
    PartExceedsWhole {
        /// Of what.
        whole: String,
    },
    /// Beyond what a decimal holds.
    #[error("the counts of the usage are larger than any real call's")]
    Overflow,
}

/// A price that may depend on how much went in.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Flat(Decimal),
    /// Crossing a tier's start changes the price of all of it.
    Tiered {
        base: Decimal,
        tiers: Vec<(u64, Decimal)>,
    },
}

/// Prices in US dollars, by the name that units give them.
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

    /// Whether something could be both.
    fn agrees_with(&self, other: &Self) -> bool {
        self.dimensions.iter().all(|(name, value)| other.dimensions.get(name).is_none_or(|v| v == value))
    }

    /// Whether it is what is both.
    fn is_join_of(&self, one: &Self, other: &Self) -> bool {
        let mut joined = one.dimensions.clone();
        joined.extend(other.dimensions.clone());
        self.dimensions == joined
    }
}

impl Units {
    /// Whether there is a unit of that name.
    #[cfg(test)]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What `counts` cost: each counted thing once, at the price of the most specific unit that has one.
    pub(crate) fn cost(&self, amounts: &Amounts, counts: &Counts) -> Result<Decimal, PriceError> {
        let mut priced: Vec<(&str, &Unit, &Amount)> = Vec::new();
        for (name, unit) in &self.0 {
            if let Some(amount) = amounts.get(&unit.price) {
                priced.push((name, unit, amount));
            }
        }
        // The most specific first: what is left of the others is paid at their own price.
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

    /// What is counted of a unit, without its parts that are paid for already.
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

    /// What is counted of `name`: as reported, or nothing. A part without its whole says too little.
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
