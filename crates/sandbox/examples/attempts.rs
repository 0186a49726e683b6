//! Asks the kernel, from inside the walls, for what code that escaped its interpreter would ask for.
//!
//! `attempts <name>` builds the walls and makes one attempt: it dies, or prints `refused` with the error, or `ok`.
//! `tests/it/system_calls.rs` runs them all. Only calls with a safe function are here; what the filters answer to the others
//! (`fork`, `mmap` with `PROT_EXEC` or of an inherited file, `bpf`, `io_uring_setup`, `perf_event_open`, `userfaultfd`,
//! `add_key`, `shmget`, `open_by_handle_at`, `tgkill` of others) is read from their programs in `walls/filter/tests.rs`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it prints what the kernel answers; a failure before the walls ends it"
)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::error::Error;
    use std::fs::{self, File};
    use std::io::{IoSliceMut, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use houston_sandbox::walls::{self, WallLimits};
    use nix::sched::CloneFlags;
    use nix::sys::personality::{self, Persona};
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::Uid;
    use rustix::net::{AddressFamily, SocketType};
    use rustix::process::{PidfdFlags, Resource, Rlimit};
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    type Attempt = fn(&mut Before) -> Result<(), Box<dyn Error>>;

    /// A path that a test creates: what reaches it has got through.
    const FILE: &str = "/tmp/houston-sandbox-attempt";

    /// What was open before the walls, as a careless parent could leave it.
    struct Before {
        file: File,
        folder: fs::ReadDir,
        namespace: File,
        socket: std::os::fd::OwnedFd,
        memory: Option<memmap2::MmapMut>,
        parent: rustix::process::Pid,
        filter: BpfProgram,
    }

    pub(super) fn main() {
        let name = std::env::args().nth(1).unwrap_or_default();
        let Some((_, attempt)) = ATTEMPTS.iter().find(|(other, _)| *other == name) else {
            for (name, _) in ATTEMPTS {
                println!("{name}");
            }
            return;
        };
        let mut before = before().unwrap();
        let variables: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
        println!("environment {variables:?}");
        walls::build(WallLimits { cpu_seconds: 5, address_space: 320 << 20, stack: 64 << 20 }).unwrap();
        match attempt(&mut before) {
            Ok(()) => println!("ok"),
            Err(error) => println!("refused: {error}"),
        }
    }

    fn before() -> Result<Before, Box<dyn Error>> {
        Ok(Before {
            file: File::open("/etc/passwd")?,
            folder: fs::read_dir("/")?,
            namespace: File::open("/proc/self/ns/net")?,
            socket: rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?,
            memory: Some(memmap2::MmapMut::map_anon(4096)?),
            parent: rustix::process::getppid().ok_or("no parent")?,
            filter: SeccompFilter::new(
                BTreeMap::from([(39, Vec::new())]),
                SeccompAction::Allow,
                SeccompAction::Errno(1),
                std::env::consts::ARCH.try_into()?,
            )?
            .try_into()?,
        })
    }

    fn done<T>(_: T) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    fn socket(family: AddressFamily, kind: SocketType) -> Result<(), Box<dyn Error>> {
        rustix::net::socket(family, kind, None)?;
        Ok(())
    }

    const ATTEMPTS: &[(&str, Attempt)] = &[
        ("nothing", |_| Ok(())),
        ("open a file", |_| done(File::open("/etc/passwd")?)),
        ("open another process's environment", |_| done(File::open("/proc/1/environ")?)),
        ("open its own program", |_| done(File::open("/proc/self/exe")?)),
        ("open its own memory", |_| done(File::open("/proc/self/mem")?)),
        ("open a device", |_| done(File::open("/dev/null")?)),
        ("create a file", |_| done(File::create(FILE)?)),
        ("look at a file", |_| done(fs::metadata("/etc/passwd")?)),
        ("read a link", |_| done(fs::read_link("/proc/self/exe")?)),
        ("list an open folder", |before| done(before.folder.next().ok_or("empty")??)),
        ("read an open file", |before| done(before.file.read(&mut [0_u8])?)),
        ("write to an open file", |before| done(before.file.write(b"x")?)),
        ("read its output", |_| done(rustix::io::read(rustix::stdio::stdout(), &mut [0_u8])?)),
        ("unlink", |_| Ok(fs::remove_file(FILE)?)),
        ("mkdir", |_| Ok(fs::create_dir(FILE)?)),
        ("rmdir", |_| Ok(fs::remove_dir(FILE)?)),
        ("rename", |_| Ok(fs::rename(FILE, format!("{FILE}-2"))?)),
        ("link", |_| Ok(fs::hard_link(FILE, format!("{FILE}-2"))?)),
        ("symlink", |_| Ok(symlink(FILE, format!("{FILE}-2"))?)),
        ("chmod", |_| Ok(fs::set_permissions(FILE, fs::Permissions::from_mode(0o777))?)),
        ("truncate", |_| Ok(nix::unistd::truncate(FILE, 0)?)),
        ("chdir", |_| Ok(std::env::set_current_dir("/tmp")?)),
        ("chroot", |_| Ok(rustix::process::chroot(FILE)?)),
        ("mount", |_| Ok(rustix::mount::mount_bind(FILE, FILE)?)),
        ("inotify", |_| done(rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty())?)),
        ("memfd_create", |_| done(rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::empty())?)),
        ("socket inet", |_| socket(AddressFamily::INET, SocketType::STREAM)),
        ("socket inet6", |_| socket(AddressFamily::INET6, SocketType::DGRAM)),
        ("socket unix", |_| socket(AddressFamily::UNIX, SocketType::STREAM)),
        ("socket netlink", |_| socket(AddressFamily::NETLINK, SocketType::RAW)),
        ("socketpair", |_| done(UnixStream::pair()?)),
        ("datagram", |_| done(UnixDatagram::unbound()?)),
        ("listen", |_| done(TcpListener::bind("127.0.0.1:0")?)),
        ("connect", |_| done(TcpStream::connect("127.0.0.1:9")?)),
        ("send a datagram", |_| done(UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", "127.0.0.1:9")?)),
        ("connect an open socket", |before| {
            let address: std::net::SocketAddr = "127.0.0.1:9".parse()?;
            Ok(rustix::net::connect(&before.socket, &address)?)
        }),
        ("listen on an open socket", |before| Ok(rustix::net::listen(&before.socket, 1)?)),
        ("pipe", |_| done(rustix::pipe::pipe()?)),
        ("duplicate a descriptor", |_| done(rustix::io::dup(rustix::stdio::stdin())?)),
        ("thread", |_| Ok(std::thread::Builder::new().spawn(|| {})?.join().map_err(|_| "it panicked")?)),
        ("start a program", |_| done(Command::new("/bin/true").spawn()?)),
        ("become a program", |_| Err(Command::new("/bin/true").exec().into())),
        ("kill its parent", |before| Ok(rustix::process::test_kill_process(before.parent)?)),
        ("kill itself", |_| Ok(nix::sys::signal::raise(nix::sys::signal::Signal::SIGCONT)?)),
        ("ptrace", |_| Ok(nix::sys::ptrace::traceme()?)),
        ("read another process", |_| {
            let (mut byte, from) = ([0], &ATTEMPTS as *const _ as usize);
            let remote = [RemoteIoVec { base: from, len: 1 }];
            process_vm_readv(nix::unistd::Pid::from_raw(1), &mut [IoSliceMut::new(&mut byte)], &remote)?;
            Ok(())
        }),
        ("pidfd_open", |_| {
            done(rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?)
        }),
        ("executable memory", |before| {
            let memory = before.memory.take().ok_or("no memory")?;
            done(memory.make_exec()?)
        }),
        ("10 GiB", |_| Ok(Vec::<u8>::new().try_reserve_exact(10 << 30)?)),
        ("unshare", |_| Ok(nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?)),
        ("setns", |before| Ok(nix::sched::setns(&before.namespace, CloneFlags::CLONE_NEWNET)?)),
        ("setuid", |_| Ok(nix::unistd::setuid(Uid::from_raw(65_534))?)),
        ("setsid", |_| done(rustix::process::setsid()?)),
        ("uname", |_| done(rustix::system::uname())),
        ("raise a limit", |_| {
            let unlimited = Rlimit { current: None, maximum: None };
            Ok(rustix::process::setrlimit(Resource::Cpu, unlimited)?)
        }),
        ("become dumpable", |_| {
            Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?)
        }),
        ("another filter", |before| Ok(seccompiler::apply_filter(&before.filter)?)),
        ("personality", |_| done(personality::set(Persona::ADDR_NO_RANDOMIZE)?)),
        ("landlock again", |_| {
            walls::build(WallLimits { cpu_seconds: 60, address_space: 1 << 40, stack: 64 << 20 })
                .map_err(|error| error.join("; ").into())
        }),
    ];
}
