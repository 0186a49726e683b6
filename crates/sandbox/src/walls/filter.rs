//! Two seccomp filters from the list of system calls. Both judge every call, and the stricter answer counts: the first refuses
//! what libraries can live without, the second ends the process for everything that is not in the list.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::system_calls::{Answer, SYSTEM_CALLS};

const EACCES: u32 = 13;
const PROT_EXEC: u64 = 4;
/// The descriptor -1 of memory without a file, as the 32 bits that the kernel looks at.
const NO_FILE: u64 = 0xffff_ffff;

/// Installs the filters, for threads as well should there be any.
pub(super) fn install() -> Result<(), String> {
    let arch = if cfg!(target_arch = "x86_64") {
        TargetArch::x86_64
    } else if cfg!(target_arch = "aarch64") {
        TargetArch::aarch64
    } else {
        return Err("only x86-64 and aarch64 have a list of system calls".to_owned());
    };
    for program in programs(arch).map_err(|error| error.to_string())? {
        apply_filter_all_threads(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The filters, in the order of installation: the second forbids to install more.
fn programs(arch: TargetArch) -> Result<[BpfProgram; 2], BackendError> {
    let (mut refused, mut allowed) = (BTreeMap::new(), BTreeMap::new());
    for (_, x86_64, aarch64, answer) in SYSTEM_CALLS {
        let number = if arch == TargetArch::x86_64 { x86_64 } else { aarch64 };
        let Some(number) = number else { continue };
        if answer == Answer::Refuse {
            refused.insert(number, Vec::new());
        }
        allowed.insert(number, rules(answer)?);
    }
    let refuse = SeccompFilter::new(refused, SeccompAction::Allow, SeccompAction::Errno(EACCES), arch)?;
    let allow = SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok([refuse.try_into()?, allow.try_into()?])
}

/// The rules of which one must match; none means always.
fn rules(answer: Answer) -> Result<Vec<SeccompRule>, BackendError> {
    let not_executable =
        || SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(PROT_EXEC), 0);
    match answer {
        Answer::Allow | Answer::Refuse => Ok(Vec::new()),
        Answer::On(descriptors) => {
            let on = |descriptor| {
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, descriptor)
                    .and_then(|condition| SeccompRule::new(vec![condition]))
            };
            descriptors.iter().copied().map(on).collect()
        }
        Answer::NotExecutable => Ok(vec![SeccompRule::new(vec![not_executable()?])?]),
        Answer::Anonymous => {
            let no_file = SeccompCondition::new(4, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, NO_FILE)?;
            Ok(vec![SeccompRule::new(vec![not_executable()?, no_file])?])
        }
    }
}

#[cfg(test)]
mod tests;
