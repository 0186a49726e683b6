//! What the filters answer, read from the programs that the kernel gets: for both architectures, and for calls that no test
//! can attempt, because they have no safe function.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Kill,
    Refuse,
    Allow,
}

const X86_64: u32 = 0xc000_003e;
const AARCH64: u32 = 0xc000_00b7;
const ANY_FILE: u64 = 9;
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;

/// The programs of an architecture.
struct Filters {
    arch: u32,
    programs: [BpfProgram; 2],
}

impl Filters {
    fn x86_64() -> Self {
        Self { arch: X86_64, programs: programs(TargetArch::x86_64).unwrap() }
    }

    fn aarch64() -> Self {
        Self { arch: AARCH64, programs: programs(TargetArch::aarch64).unwrap() }
    }

    /// The answer of both filters: the stricter one.
    fn verdict(&self, number: i64, arguments: [u64; 6]) -> Verdict {
        self.verdict_of(self.arch, number, arguments)
    }

    fn verdict_of(&self, arch: u32, number: i64, arguments: [u64; 6]) -> Verdict {
        let mut data = vec![u32::try_from(number).unwrap(), arch, 0, 0];
        for argument in arguments {
            data.push(u32::try_from(argument & 0xffff_ffff).unwrap());
            data.push(u32::try_from(argument >> 32).unwrap());
        }
        let verdicts = self.programs.iter().map(|program| match evaluate(program, &data) {
            0x7fff_0000 => Verdict::Allow,
            0x0005_000d => Verdict::Refuse,
            0x8000_0000 => Verdict::Kill,
            other => panic!("unknown answer {other:#x}"),
        });
        verdicts.min().unwrap()
    }

    fn plain(&self, number: i64) -> Verdict {
        self.verdict(number, [0; 6])
    }
}

/// Runs a filter as the kernel does, over the words of `struct seccomp_data`.
fn evaluate(program: &BpfProgram, data: &[u32]) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let instruction = &program[at];
        let k = instruction.k;
        let jump = |condition: bool| usize::from(if condition { instruction.jt } else { instruction.jf });
        at += 1;
        match instruction.code {
            0x20 => accumulator = data[k as usize / 4],
            0x05 => at += k as usize,
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            0x35 => at += jump(accumulator >= k),
            0x54 => accumulator &= k,
            0x06 => return k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

/// Calls that would reach something, with their numbers on both architectures.
const FORBIDDEN: [(&str, Option<i64>, Option<i64>); 62] = [
    ("accept4", Some(288), Some(242)),
    ("add_key", Some(248), Some(217)),
    ("bind", Some(49), Some(200)),
    ("bpf", Some(321), Some(280)),
    ("chroot", Some(161), Some(51)),
    ("clone", Some(56), Some(220)),
    ("clone3", Some(435), Some(435)),
    ("connect", Some(42), Some(203)),
    ("creat", Some(85), None),
    ("dup2", Some(33), None),
    ("dup3", Some(292), Some(24)),
    ("execve", Some(59), Some(221)),
    ("execveat", Some(322), Some(281)),
    ("fcntl", Some(72), Some(25)),
    ("finit_module", Some(313), Some(273)),
    ("fork", Some(57), None),
    ("getdents64", Some(217), Some(61)),
    ("inotify_init1", Some(294), Some(26)),
    ("io_uring_enter", Some(426), Some(426)),
    ("io_uring_setup", Some(425), Some(425)),
    ("kexec_load", Some(246), Some(104)),
    ("keyctl", Some(250), Some(219)),
    ("kill", Some(62), Some(129)),
    ("landlock_create_ruleset", Some(444), Some(444)),
    ("memfd_create", Some(319), Some(279)),
    ("mkdir", Some(83), None),
    ("mkdirat", Some(258), Some(34)),
    ("mount", Some(165), Some(40)),
    ("name_to_handle_at", Some(303), Some(264)),
    ("open_by_handle_at", Some(304), Some(265)),
    ("open_tree", Some(428), Some(428)),
    ("openat2", Some(437), Some(437)),
    ("perf_event_open", Some(298), Some(241)),
    ("personality", Some(135), Some(92)),
    ("pidfd_getfd", Some(438), Some(438)),
    ("pidfd_open", Some(434), Some(434)),
    ("pkey_mprotect", Some(329), Some(288)),
    ("pread64", Some(17), Some(67)),
    ("prctl", Some(157), Some(167)),
    ("process_vm_readv", Some(310), Some(270)),
    ("process_vm_writev", Some(311), Some(271)),
    ("ptrace", Some(101), Some(117)),
    ("pwrite64", Some(18), Some(68)),
    ("recvmsg", Some(47), Some(212)),
    ("rename", Some(82), None),
    ("renameat2", Some(316), Some(276)),
    ("seccomp", Some(317), Some(277)),
    ("sendfile", Some(40), Some(71)),
    ("sendmsg", Some(46), Some(211)),
    ("sendto", Some(44), Some(206)),
    ("setns", Some(308), Some(268)),
    ("setrlimit", Some(160), Some(164)),
    ("setuid", Some(105), Some(146)),
    ("shmget", Some(29), Some(194)),
    ("socket", Some(41), Some(198)),
    ("socketpair", Some(53), Some(199)),
    ("splice", Some(275), Some(76)),
    ("tgkill", Some(234), Some(131)),
    ("truncate", Some(76), Some(45)),
    ("unlinkat", Some(263), Some(35)),
    ("unshare", Some(272), Some(97)),
    ("vfork", Some(58), None),
];

#[test]
fn forbidden_calls_end_the_process() {
    let (x86_64, aarch64) = (Filters::x86_64(), Filters::aarch64());
    for (name, on_x86_64, on_aarch64) in FORBIDDEN {
        for (filters, number) in [(&x86_64, on_x86_64), (&aarch64, on_aarch64)] {
            if let Some(number) = number {
                assert_eq!(filters.plain(number), Verdict::Kill, "{name} on {:#x}", filters.arch);
            }
        }
    }
}

#[test]
fn calls_outside_the_list_end_the_process() {
    for filters in [Filters::x86_64(), Filters::aarch64()] {
        let listed: Vec<i64> = SYSTEM_CALLS
            .iter()
            .filter_map(|(_, x86_64, aarch64, _)| if filters.arch == X86_64 { *x86_64 } else { *aarch64 })
            .collect();
        let outside = (0..2000).filter(|number| !listed.contains(number));
        for number in outside {
            assert_eq!(filters.plain(number), Verdict::Kill, "call {number} on {:#x}", filters.arch);
        }
    }
}

#[test]
fn calls_of_another_architecture_end_the_process() {
    let filters = Filters::x86_64();
    // The 32-bit calls of the same kernel, and the x32 calls, which carry bit 30.
    assert_eq!(filters.verdict_of(0x4000_0003, 4, [1, 0, 0, 0, 0, 0]), Verdict::Kill);
    assert_eq!(filters.verdict_of(X86_64, 0x4000_0001, [1, 0, 0, 0, 0, 0]), Verdict::Kill);
}

#[test]
fn files_are_refused_and_not_fatal() {
    let filters = Filters::x86_64();
    for number in [2, 4, 5, 257, 262, 332] {
        assert_eq!(filters.plain(number), Verdict::Refuse, "call {number}");
    }
}

#[test]
fn only_the_own_pipes_are_read_and_written() {
    for (filters, read, write) in [(Filters::x86_64(), 0, 1), (Filters::aarch64(), 63, 64)] {
        let on = |number, descriptor| filters.verdict(number, [descriptor, 0, 0, 0, 0, 0]);
        assert_eq!(on(read, 0), Verdict::Allow);
        assert_eq!(on(write, 1), Verdict::Allow);
        assert_eq!(on(write, 2), Verdict::Allow);
        for (number, descriptor) in [(read, 1), (read, ANY_FILE), (write, 0), (write, ANY_FILE)] {
            assert_eq!(on(number, descriptor), Verdict::Kill, "call {number} on {descriptor}");
        }
    }
}

#[test]
fn memory_is_anonymous_and_never_executable() {
    for (filters, mmap, mprotect) in [(Filters::x86_64(), 9, 10), (Filters::aarch64(), 222, 226)] {
        let map = |protection, file| filters.verdict(mmap, [0, 4096, protection, 0x22, file, 0]);
        assert_eq!(map(READ_WRITE, u64::MAX), Verdict::Allow);
        assert_eq!(map(READ_EXECUTE, u64::MAX), Verdict::Kill);
        assert_eq!(map(READ_WRITE, ANY_FILE), Verdict::Kill, "an inherited file can be mapped");
        let protect = |protection| filters.verdict(mprotect, [0, 4096, protection, 0, 0, 0]);
        assert_eq!(protect(READ_WRITE), Verdict::Allow);
        assert_eq!(protect(READ_EXECUTE), Verdict::Kill);
    }
}
