//! Rules between settings, and bounds of single ones.

use figment::Figment;

use super::{ConfigError, Settings, origin_of};

/// # Errors
/// The first setting that breaks a rule: which, from where, and what is allowed.
pub(super) fn check(settings: &Settings, figment: &Figment) -> Result<(), ConfigError> {
    let refuse = |key: &str, reason: String| {
        let origin = origin_of(&figment.find_metadata(key).cloned(), key);
        Err(ConfigError::Setting { key: key.to_owned(), origin, reason })
    };
    let orchestrator = &settings.orchestrator;
    if orchestrator.lease.trust_s >= orchestrator.lease.ttl_s {
        let ttl = orchestrator.lease.ttl_s;
        return refuse("orchestrator.lease.trust_s", format!("must be less than ttl_s ({ttl})"));
    }
    if orchestrator.lease.renew_s == 0 || orchestrator.lease.renew_s >= orchestrator.lease.trust_s {
        return refuse("orchestrator.lease.renew_s", "must be at least 1 and less than trust_s".to_owned());
    }
    for (key, value) in [
        ("orchestrator.limits.max_iterations", u64::from(orchestrator.limits.max_iterations)),
        ("orchestrator.limits.max_same_tool", u64::from(orchestrator.limits.max_same_tool)),
        ("orchestrator.worker.slots", orchestrator.worker.slots as u64),
        ("orchestrator.worker.database_connections", u64::from(orchestrator.worker.database_connections)),
        ("orchestrator.fairness.max_running", u64::from(orchestrator.fairness.max_running)),
        ("orchestrator.fairness.max_pending", u64::from(orchestrator.fairness.max_pending)),
        ("orchestrator.fairness.read_messages", u64::from(orchestrator.fairness.read_messages)),
        ("orchestrator.fairness.read_bytes", u64::from(orchestrator.fairness.read_bytes)),
        ("orchestrator.worker.background_percent", u64::from(orchestrator.worker.background_percent)),
        ("orchestrator.worker.maintenance_percent", u64::from(orchestrator.worker.maintenance_percent)),
        ("server.max_body_bytes", settings.server.max_body_bytes as u64),
    ] {
        if value == 0 {
            return refuse(key, "must be at least 1".to_owned());
        }
    }
    let (background, maintenance) =
        (orchestrator.worker.background_percent, orchestrator.worker.maintenance_percent);
    if background > 100 {
        return refuse("orchestrator.worker.background_percent", "must be 100 at most".to_owned());
    }
    if maintenance > background {
        let reason = format!("must be background_percent ({background}) at most: it is a part of it");
        return refuse("orchestrator.worker.maintenance_percent", reason);
    }
    // A key that is missing shows in each call; a provider that does not exist is a slip of the pen.
    let models = settings.models.iter().map(|(use_case, model)| (format!("models.{use_case}"), model));
    for (key, model) in models.chain(settings.model.iter().map(|model| ("model".to_owned(), model))) {
        if let (true, Err(error)) = (model != "auto", houston_llm::parse_choice(model)) {
            return refuse(&key, error.message);
        }
    }
    let tick = settings.health_monitor.tick;
    if let Err(error) = tick.schedule() {
        return refuse("health_monitor.tick.every_s", error.to_string());
    }
    if tick.batch < 1 || tick.batches < 1 {
        return refuse("health_monitor.tick.batch", "must be at least 1, and batches too".to_owned());
    }
    if settings.server.address.parse::<std::net::SocketAddr>().is_err() {
        return refuse("server.address", "must be an address and a port, such as 127.0.0.1:8080".to_owned());
    }
    Ok(())
}
