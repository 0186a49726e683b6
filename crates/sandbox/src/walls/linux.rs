//! The walls on Linux: resource limits, another user than root and no capabilities, `no_new_privs`, Landlock, seccomp, in this order.

use std::fs::File;
use std::io::ErrorKind;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, geteuid, getrlimit, getuid, set_dumpable_behavior,
    setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::{WallLimits, filter};

/// The rights that must be handled: files, TCP, and since Linux 6.12 signals and abstract sockets.
const NEEDED: ABI = ABI::V6;
/// Rights of newer kernels are handled, too, where they exist.
const NEWEST: ABI = ABI::V10;

/// Builds all walls around this process. Call it before any thread is started and before anything foreign is read.
///
/// # Errors
///
/// Which walls this machine cannot build, one sentence each. The process must then end, because some of the others are
/// built.
pub fn build(limits: WallLimits) -> Result<(), Vec<String>> {
    prefer_as_victim();
    yield_to_others();
    let walls = [
        ("resource limits", limit(limits).map_err(|error| error.to_string())),
        ("no root", be_nobody()),
        ("no_new_privs", set_no_new_privs(true).map_err(|error| error.to_string())),
        (
            "not dumpable",
            set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| error.to_string()),
        ),
        ("Landlock", landlock()),
        // Landlock needed one more descriptor.
        ("descriptors", lower(Resource::Nofile, 3, 3).map_err(|error| error.to_string())),
        ("seccomp", filter::install()),
    ];
    let reason = |(name, built): (&str, Result<(), String>)| Some(format!("{name}: {}", built.err()?));
    let missing: Vec<String> = walls.into_iter().filter_map(reason).collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    prove().map_err(|error| vec![error])
}

/// When the machine runs out of memory, the kernel shall end the child and not its parent. Raising the own score is always
/// allowed; where it fails, nothing is lost.
fn prefer_as_victim() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// What tenants let a child compute must not take the processor from those who wait for an answer. Beside processes that use a
/// processor up, a child still has a tenth of it.
fn yield_to_others() {
    let _ = rustix::process::nice(10);
}

fn limit(limits: WallLimits) -> rustix::io::Result<()> {
    lower(Resource::Core, 0, 0)?;
    lower(Resource::Fsize, 0, 0)?;
    lower(Resource::Nproc, 0, 0)?;
    lower(Resource::Memlock, 0, 0)?;
    // SIGXCPU at the first, SIGKILL at the second.
    lower(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 1)?;
    lower(Resource::As, limits.address_space, limits.address_space)?;
    lower(Resource::Stack, limits.stack, limits.stack)
}

/// Sets a limit; where the inherited maximum is lower, to that.
fn lower(resource: Resource, current: u64, maximum: u64) -> rustix::io::Result<()> {
    let maximum = getrlimit(resource).maximum.map_or(maximum, |most| most.min(maximum));
    setrlimit(resource, Rlimit { current: Some(current.min(maximum)), maximum: Some(maximum) })
}

/// The user and the group that own nothing: `nobody`.
const NOBODY: u32 = 65_534;

/// Gives up root, if the process has it, and all capabilities. Where root may not become another user (a namespace that has no other,
/// a container without `CAP_SETUID`) it stays root without capabilities: the walls that follow hold for it as for anybody.
fn be_nobody() -> Result<(), String> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let unless_forbidden = |done: rustix::io::Result<()>| match done {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done.map_err(|error| error.to_string()),
    };
    if getuid().is_root() || geteuid().is_root() {
        unless_forbidden(set_thread_groups(&[]))?;
        unless_forbidden(set_thread_res_gid(group, group, group))?;
        unless_forbidden(set_thread_res_uid(user, user, user))?;
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| error.to_string())
}

fn landlock() -> Result<(), String> {
    let restricted = restrict().map_err(|error| {
        format!("{error}; it needs Linux 6.12 or newer with `landlock` in the list /sys/kernel/security/lsm")
    })?;
    if restricted == RulesetStatus::NotEnforced { Err("it is switched off".to_owned()) } else { Ok(()) }
}

/// Handles all rights and gives none.
fn restrict() -> Result<RulesetStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .handle_access(AccessNet::from_all(NEEDED))?
        .scope(Scope::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    Ok(ruleset.create()?.restrict_self()?.ruleset)
}

/// Tries what the walls forbid: a wall that reports success and does nothing must not pass.
fn prove() -> Result<(), String> {
    match File::open("/") {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(format!("opening a folder failed in an unexpected way: {error}")),
        Ok(_) => Err("a folder could be opened".to_owned()),
    }
}
