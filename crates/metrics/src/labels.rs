//! Series with fixed labels, and the buckets of histograms.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of which all values are part of the program.
pub(crate) type Fixed<const N: usize> = [(&'static str, &'static str); N];
/// Labels of which some values come from settings.
pub(crate) type Named<const N: usize> = [(&'static str, String); N];
/// Histograms by their labels.
pub(crate) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// A counter for each value of one label, all of them 0 at first.
pub(crate) fn counters<const N: usize>(
    registry: &mut Registry,
    (name, help): (&str, &str),
    label: &'static str,
    values: [&'static str; N],
) -> [Counter; N] {
    let family: Family<Fixed<1>, Counter> = metric(registry, (name, help));
    values.map(|value| family.get_or_create_owned(&[(label, value)]))
}

/// A metric, or a family of them.
pub(crate) fn metric<M>(registry: &mut Registry, (name, help): (&str, &str)) -> M
where
    M: prometheus_client::registry::Metric + Default + Clone,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A family of histograms with the buckets that `make` gives them.
pub(crate) fn histograms<L>(
    registry: &mut Registry,
    (name, help): (&str, &str),
    make: fn() -> Histogram,
) -> Histograms<L>
where
    Histograms<L>: prometheus_client::registry::Metric + Clone,
    L: Clone + std::hash::Hash + Eq,
{
    let family = Family::new_with_constructor(make);
    registry.register(name, help, Family::clone(&family));
    family
}

/// Requests: 5 ms to 10 s.
pub(crate) fn of_requests() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// Model calls, as OpenTelemetry's conventions for generative AI have them: 10 ms to 82 s, each twice the one before.
pub(crate) fn of_models() -> Histogram {
    Histogram::new([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92])
}

/// Whole runs: 100 ms to an hour.
pub(crate) fn of_runs() -> Histogram {
    Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0])
}
