//! `/v1/workers`: the worker processes of the installation, for keys with the scope `installation`.

pub(crate) mod drain;
pub(crate) mod list;

use houston_domain::agentable::Urgency;
use houston_protocol::time::Time;
use houston_protocol::worker::{WorkerResponse, WorkerSlots};
use houston_queue::Lane;
use houston_store::worker_list::RegisteredWorker;

fn response(worker: RegisteredWorker) -> WorkerResponse {
    let status = match () {
        () if !worker.is_alive => "dead",
        () if worker.claims() => "alive",
        () => "draining",
    };
    WorkerResponse {
        id: worker.id,
        name: worker.name,
        host: worker.host,
        pid: worker.pid,
        version: worker.version,
        status: status.to_owned(),
        lanes: [Urgency::Interactive, Urgency::Background]
            .map(|lane| Lane::from(lane).as_str().to_owned())
            .to_vec(),
        slots: WorkerSlots { total: worker.slots, background: worker.background_slots, busy: worker.busy },
        started_at: Time(worker.started_at),
        beat_at: Time(worker.beat_at),
        lease_until: Time(worker.lease_until),
        drain_requested_at: worker.drain_requested_at.map(Time),
        draining_since: worker.draining_since.map(Time),
    }
}
