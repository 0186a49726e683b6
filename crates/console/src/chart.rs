//! What the element `time-chart` draws.

use std::collections::BTreeMap;

use chrono::{NaiveDate, NaiveTime};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;
use serde_json::{Value, json};

/// A chart, as JSON. Empty: there is nothing to draw.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    /// Seconds.
    pub(crate) x: String,
    pub(crate) series: String,
}

impl Chart {
    pub(crate) fn new(x: &[i64], series: &Value) -> Self {
        Self { x: json!(x).to_string(), series: series.to_string() }
    }

    /// US dollars by day, oldest first. Days between that have none are 0.
    pub(crate) fn of_costs(days: impl Iterator<Item = (NaiveDate, Option<Decimal>)>) -> Self {
        let costs: BTreeMap<NaiveDate, f64> =
            days.map(|(day, cost)| (day, cost.and_then(|cost| cost.to_f64()).unwrap_or_default())).collect();
        let Some((first, last)) = costs.keys().next().zip(costs.keys().next_back()) else {
            return Self::default();
        };
        let days = first.iter_days().take_while(|day| day <= last);
        let (x, values): (Vec<i64>, Vec<f64>) = days
            .map(|day| {
                let cost = costs.get(&day).copied().unwrap_or_default();
                (day.and_time(NaiveTime::MIN).and_utc().timestamp(), cost)
            })
            .unzip();
        let name = "US dollars";
        let of_costs =
            json!([{"name": name, "colour": "--accent", "fill": "--accent-soft", "values": values}]);
        Self::new(&x, &of_costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_has_every_day_between() {
        let day = |day: u32, cost: &str| {
            (NaiveDate::from_ymd_opt(2026, 11, day).unwrap(), Some(cost.parse().unwrap()))
        };
        assert_eq!(Chart::of_costs(std::iter::empty()).x, "");
        let Chart { x, series } = Chart::of_costs([day(5, "2.5"), day(3, "1")].into_iter());
        assert_eq!(serde_json::from_str::<Vec<i64>>(&x).unwrap().len(), 3);
        assert!(series.contains("[1.0,0.0,2.5]"), "{series}");
    }
}
