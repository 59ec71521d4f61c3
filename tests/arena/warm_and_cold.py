"""Ways in which a task could leave a bit for the next in what the kernel shares: files in memory, names, swap, time …

Every channel has ``put``, which does something or nothing, and ``measure``, a number that the next task reads. A
channel that works makes the numbers after a 1 differ from those after a 0.
"""

from __future__ import annotations

import re

import numpy as np
from scipy.stats import mannwhitneyu

TASKS = 32

CHANNELS = r'''
import ctypes, errno, fcntl, functools, glob, mmap, os, resource, select, socket, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
PAGE = mmap.PAGESIZE

def clock(work):
    begun = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begun

def files(top, least=PAGE):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.path.getsize(path) >= least:
                yield path

@functools.cache
def some(top, count=8, least=PAGE):
    return sorted(files(top, least))[-count:]

class Read:
    """A file is read, or not; how long does its first read take?"""
    def __init__(self, paths): self.paths = paths
    def put(self, bit):
        for path in self.paths() if bit else ():
            open(path, "rb").read()
    def measure(self):
        def first():
            for path in self.paths():
                with open(path, "rb", 0) as file:
                    os.pread(file.fileno(), 1, os.path.getsize(path) // 2)
        return clock(first)

class Mincore(Read):
    """How many pages of its files are in memory?"""
    def measure(self):
        total = 0
        for path in self.paths():
            with open(path, "rb") as file:
                size = os.path.getsize(path)
                libc.mmap.restype = ctypes.c_void_p
                place = libc.mmap(None, ctypes.c_size_t(size), 1, 2, file.fileno(), 0)
                pages = (ctypes.c_ubyte * (-(-size // PAGE)))()
                libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), pages)
                total += sum(page & 1 for page in pages)
                libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
        return total

class Evicted(Read):
    """Its pages are pushed out, or not."""
    def __init__(self, paths, advice): self.paths, self.advice = paths, advice
    def put(self, bit):
        for path in self.paths() if bit else ():
            with open(path, "rb") as file:
                if self.advice == "fadvise":
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    continue
                size = os.path.getsize(path)
                libc.mmap.restype = ctypes.c_void_p
                place = libc.mmap(None, ctypes.c_size_t(size), 1, 1, file.fileno(), 0)
                libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), self.advice)
                libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))

class NoWait(Read):
    """Can it be read without waiting?"""
    def measure(self):
        with open(self.paths()[0], "rb") as file:
            return os.preadv(file.fileno(), [bytearray(1)], 0, getattr(os, "RWF_NOWAIT", 8))

class CacheStat(Read):
    def measure(self):
        with open(self.paths()[0], "rb") as file:
            out = (ctypes.c_uint64 * 5)()
            span = (ctypes.c_uint64 * 2)(0, 0)
            if libc.syscall(451, file.fileno(), span, out, 0) < 0: raise OSError(ctypes.get_errno(), "cachestat")
            return out[0]

class Names:
    """Names are asked for, or not: those that are there, or are not."""
    def __init__(self, names): self.names = names
    def put(self, bit):
        for name in self.names() if bit else ():
            os.path.exists(name)
    def measure(self): return clock(lambda: [os.path.exists(name) for name in self.names()])

class Listing:
    def __init__(self, folder): self.folder = folder
    def put(self, bit):
        if bit: list(os.scandir(self.folder()))
    def measure(self): return clock(lambda: os.listdir(self.folder()))

class Times:
    """When a file was last read."""
    def __init__(self, path): self.path = path
    def put(self, bit):
        if bit: open(self.path(), "rb").read(1)
    def measure(self): return os.stat(self.path()).st_atime_ns

class Memory:
    """Much of it is used; how long does it take to have some?"""
    def __init__(self, size): self.size = size
    def put(self, bit):
        if bit: bytearray(self.size)[:: PAGE] = bytes(-(-self.size // PAGE))
    def measure(self): return clock(lambda: bytearray(8 << 20))

class Told:
    """A number of the kernel's, and something that moves it."""
    def __init__(self, path): self.path = path
    def put(self, bit):
        if bit: self.kept = bytearray(64 << 20)
    def measure(self): return hash(open(self.path).read()) % 10**9

class Swept:
    """Memory is pushed to the swap."""
    def put(self, bit):
        if bit:
            view = mmap.mmap(-1, 16 << 20)
            view.write(b"x" * (16 << 20))
            view.madvise(21)
    def measure(self):
        view = mmap.mmap(-1, 4 << 20)
        return clock(lambda: view.write(b"x" * (4 << 20)))

class Slab:
    """Many small things are made and go; how long does making some take?"""
    def __init__(self, make): self.make = make
    def put(self, bit):
        if bit: self.make(2000)
    def measure(self): return clock(lambda: self.make(50))

def inodes(count):
    for number in range(count): open(f"/tmp/i{number}", "w").close()
    for number in range(count): os.remove(f"/tmp/i{number}")
def sockets(count):
    for _ in range(0, count, 50):
        for line in [socket.socket() for _ in range(50)]: line.close()
def pipes(count):
    for _ in range(count):
        for end in os.pipe(): os.close(end)
def events(count):
    for _ in range(count): select.epoll().close()
def children(count):
    for _ in range(count // 200 + 1):
        child = os.fork()
        if not child: os._exit(0)
        os.waitpid(child, 0)

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end: pass

class Warm:
    """The processor is kept busy, or rests: frequency and heat."""
    def put(self, bit): busy(0.03) if bit else time.sleep(0.03)
    def measure(self):
        def work():
            total = 0
            for number in range(50_000): total += number
        return clock(work)

class Caches:
    """Memory of the size of the processor's caches is walked through."""
    def put(self, bit):
        if bit:
            block = bytearray(32 << 20)
            for _ in range(2): block[::64] = bytes(len(block) // 64)
    def measure(self):
        block = bytearray(1 << 20)
        return clock(lambda: block[::64])

class Cpu:
    """The core that it runs on."""
    def put(self, bit):
        try: os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-bit]})
        except OSError: pass
    def measure(self): return libc.sched_getcpu()

class Cookie:
    """Sockets are counted by the kernel."""
    def put(self, bit):
        for _ in range(3000 if bit else 0): self.measure()
    def measure(self):
        with socket.socket() as line: return struct.unpack("Q", line.getsockopt(socket.SOL_SOCKET, 57, 8))[0]

class PidFile:
    """So are processes."""
    def put(self, bit):
        if bit: children(4000)
    def measure(self): return os.fstat(os.pidfd_open(os.getpid())).st_ino

class Joined:
    """Pages of a library are joined into a large one, which stays so in memory."""
    def __init__(self, paths): self.paths = paths
    def mapped(self):
        path = self.paths()[0]
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE | getattr(mmap, "MAP_POPULATE", 0x8000), mmap.PROT_READ)
    def put(self, bit):
        if bit: self.mapped().madvise(25)
    def measure(self):
        view = self.mapped()
        view[::PAGE]
        sizes = [line.split()[1] for line in open("/proc/self/smaps") if "PmdMapped" in line]
        return sum(map(int, sizes))

class Faults(Joined):
    """So many fewer pages have to be fetched one by one."""
    def measure(self):
        with open(self.paths()[0], "rb") as file:
            view = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        view[::PAGE]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

class Hint:
    """How long a file's content will live, which is kept with the file."""
    def __init__(self, paths): self.paths = paths
    def put(self, bit):
        with open(self.paths()[0], "rb") as file: fcntl.fcntl(file, 1036, struct.pack("Q", 2 + bit))
    def measure(self):
        with open(self.paths()[0], "rb") as file:
            try: fcntl.fcntl(file, 1036, struct.pack("Q", struct.unpack("Q", fcntl.fcntl(file, 1035, bytes(8)))[0]))
            except OSError: raise
            return struct.unpack("Q", fcntl.fcntl(file, 1035, bytes(8)))[0]

class Moved:
    """Pages of a library move to another bank of memory."""
    def put(self, bit): self.call(bit)
    def measure(self): return self.call(0)
    def call(self, node):
        with open(LIBRARIES()[0], "rb") as file:
            size = os.path.getsize(LIBRARIES()[0])
            libc.mmap.restype = ctypes.c_void_p
            place = libc.mmap(None, ctypes.c_size_t(size), 1, 2, file.fileno(), 0)
            mask = ctypes.c_ulong(1 << node)
            number = 237 if X86 else 235
            if libc.syscall(number, ctypes.c_void_p(place), ctypes.c_size_t(size), 2, ctypes.byref(mask), 64, 2) < 0:
                raise OSError(ctypes.get_errno(), "mbind")
            return 0

def stay(work):
    """Leave a process behind that did some work and sleeps."""
    if os.fork(): return
    try:
        os.setsid()
        kept = work()
        time.sleep(1000)
    finally: os._exit(0)

class Held:
    """A process that stays holds a lock, or not."""
    def __init__(self, path, kind): self.path, self.kind = path, kind
    def put(self, bit):
        if bit: stay(self.hold)
    def hold(self):
        self.file = open(self.path())
        self.lock(self.file, fcntl.LOCK_SH)
    def lock(self, file, how):
        if self.kind == "flock": fcntl.flock(file, how | fcntl.LOCK_NB)
        else: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    def measure(self):
        with open(self.path()) as file:
            try: self.lock(file, fcntl.LOCK_EX)
            except BlockingIOError: return 1
            return 0

class Group:
    """The priority of all processes of a session."""
    def put(self, bit): open("/proc/self/autogroup", "w").write(str(5 * bit))
    def measure(self): return int(open("/proc/self/autogroup").read().split()[-1])

class Standing:
    """What is set of an open file stays for whoever has the same one open."""
    def __init__(self, number, ask, tell): self.number, self.ask, self.tell = number, ask, tell
    def put(self, bit): self.tell(self.number, bit)
    def measure(self): return self.ask(self.number)

def flags(number): return fcntl.fcntl(number, fcntl.F_GETFL)
def set_flags(number, bit):
    fcntl.fcntl(number, fcntl.F_SETFL, flags(number) & ~os.O_NONBLOCK | (os.O_NONBLOCK if bit else 0))
def sign(number): return fcntl.fcntl(number, fcntl.F_GETSIG)
def set_sign(number, bit): fcntl.fcntl(number, fcntl.F_SETSIG, 20 + bit)
def hint(number): return struct.unpack("Q", fcntl.fcntl(number, 1037, bytes(8)))[0]
def set_hint(number, bit): fcntl.fcntl(number, 1038, struct.pack("Q", 2 + bit))
def place(number): return os.lseek(number, 0, 1)
def set_place(number, bit): os.lseek(number, 4096 * bit, 0)

class Shared:
    """Memory that the process which forks shares with all that it forked."""
    def maps(self):
        for line in open("/proc/self/maps"):
            words = line.split()
            if words[1].startswith("rw") and words[1].endswith("s"):
                yield int(words[0].partition("-")[0], 16)
    def put(self, bit):
        for address in self.maps(): ctypes.c_ubyte.from_address(address).value = bit
    def measure(self):
        values = [ctypes.c_ubyte.from_address(address).value for address in self.maps()]
        if not values: raise LookupError
        return hash(tuple(values)) % 10**6

class Space:
    """The number of the room's network, which the one before may still hold."""
    def __init__(self, kind): self.kind = kind
    def put(self, bit):
        if bit: self.kept = [socket.socket() for _ in range(200)]
    def measure(self): return os.stat(f"/proc/self/ns/{self.kind}").st_ino

class Talk:
    """Many connections are left open; the kernel counts those of the whole machine."""
    def __init__(self, path): self.path = path
    def put(self, bit):
        if not bit: return
        with socket.create_server(("127.0.0.1", 0), backlog=60) as server:
            self.kept = [socket.create_connection(server.getsockname()) for _ in range(50)]
            for line in self.kept: line.setblocking(False); line.send(b"x" * 60000)
    def measure(self): return hash(open(self.path).read()) % 10**9

class Answers:
    """Closed ports answer so often a second, on the whole machine."""
    def burst(self, count):
        refused = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.connect(("127.0.0.1", 9))
            line.setblocking(False)
            for _ in range(count):
                try: line.send(b"x")
                except OSError: refused += 1
        return refused
    def put(self, bit):
        if bit: self.burst(1500)
    def measure(self): return self.burst(200)

class Large:
    """How much memory comes in large pages?"""
    def put(self, bit):
        if bit: self.take(96 << 20)
    def take(self, size):
        view = mmap.mmap(-1, size, mmap.MAP_PRIVATE)
        view.madvise(14)
        for offset in range(0, size, PAGE): view[offset] = 1
        return view
    def measure(self):
        view = self.take(16 << 20)
        sizes = [int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if "AnonHugePages" in line]
        return sizes[0] + 0 * len(view)

class Merged:
    """Equal pages are merged over time."""
    def put(self, bit):
        if bit:
            self.view = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE)
            self.view.write(b"same" * (1 << 20))
            self.view.madvise(12)
    def measure(self): return hash(open("/proc/self/ksm_stat").read()) % 10**9

class Marks(Joined):
    """What the kernel marks about the pages of a library: shared, joined, in memory."""
    def put(self, bit):
        if bit:
            view = self.mapped()
            view[::PAGE]
            for advice in (3, 20, 22): view.madvise(advice)
    def measure(self):
        view = self.mapped()
        line = next(line for line in open("/proc/self/maps") if os.path.basename(self.paths()[0]) in line)
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        with open("/proc/self/pagemap", "rb", 0) as file:
            file.seek(first // PAGE * 8)
            data = file.read((last - first) // PAGE * 8)
        return sum(each >> 55 for each in struct.unpack(f"{len(data) // 8}Q", data)) + 0 * len(view)

class Portions(Joined):
    """A library's share of memory, as the kernel divides it among those that have it mapped."""
    def put(self, bit):
        if bit: stay(self.mapped)
    def measure(self):
        view = self.mapped()
        text = open("/proc/self/smaps").read().partition(os.path.basename(self.paths()[0]))[2]
        return int(text.partition("Pss:")[2].split()[0]) + 0 * len(view)

class Pinned(Joined):
    """A library is pinned in memory."""
    def put(self, bit):
        if bit: stay(self.pin)
    def pin(self):
        with open(self.paths()[0], "rb") as file:
            size = os.path.getsize(self.paths()[0])
            libc.mmap.restype = ctypes.c_void_p
            libc.mlock(ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(size), 1, 2, file.fileno(), 0)), size)
    def measure(self):
        with open("/proc/self/status") as file: return int(file.read().partition("VmLck:")[2].split()[0])

class Polls:
    """Numbers that are given again once they are free."""
    def put(self, bit):
        self.kept = [os.eventfd(0) for _ in range(300 * bit)]
    def measure(self):
        with os.fdopen(os.eventfd(0)) as file:
            text = open(f"/proc/self/fdinfo/{file.fileno()}").read()
            return int(text.partition("eventfd-id:")[2].split()[0])

class Clean:
    """Whatever file is open without a name."""
    def put(self, bit): fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid() * bit)
    def measure(self): return fcntl.fcntl(0, fcntl.F_GETOWN)

TORCH = lambda: some(os.path.dirname(sys.modules["torch"].__file__) + "/lib", 1, 8 << 20)
LIBRARIES = lambda: some("/usr/lib")
STDLIB = lambda: some(os.path.dirname(os.__file__))
OWN = lambda: some(os.path.dirname(os.path.abspath(__file__)))
MISSING = lambda: [f"/usr/lib/missing-{number}" for number in range(200)]
CHANNELS = {
    "page cache: libraries": Read(LIBRARIES),
    "page cache: Python's own modules": Read(STDLIB),
    "page cache: a package": Read(lambda: some(os.path.dirname(sys.modules["torch"].__file__) + "/lib", 8, 1 << 20)),
    "page cache: its own archive": Read(OWN),
    "page cache: training images": Read(lambda: some("/box/data", 8) or 1 / 0),
    "page cache: mincore": Mincore(LIBRARIES),
    "page cache: mincore of its own archive": Mincore(OWN),
    "page cache: without waiting": NoWait(LIBRARIES),
    "page cache: cachestat": CacheStat(LIBRARIES),
    "page cache: advice to the file": Evicted(OWN, "fadvise"),
    "page cache: pages pushed out": Evicted(OWN, 21),
    "page cache: pages called cold": Evicted(LIBRARIES, 20),
    "page cache: times of reading": Times(lambda: LIBRARIES()[0]),
    "dentries: names that are not there": Names(MISSING),
    "dentries: names that are not there, own folder": Names(lambda: [f"/box/submission/{n}" for n in range(200)]),
    "dentries: names that are there": Names(lambda: some("/usr/lib", 100, 0)),
    "dentries: a listing": Listing(lambda: "/usr/lib"),
    "dentries: the kernel's count": Told("/proc/sys/fs/dentry-state"),
    "swap: memory that is pushed out": Swept(),
    "swap: a lack of memory": Memory(200 << 20),
    "swap: the kernel's count": Told("/proc/vmstat"),
    "swap: free memory": Told("/proc/meminfo"),
    "swap: pressure": Told("/proc/pressure/memory"),
    "slab: inodes": Slab(inodes),
    "slab: sockets": Slab(sockets),
    "slab: pipes": Slab(pipes),
    "slab: event polls": Slab(events),
    "slab: processes": Slab(children),
    "slab: the kernel's count": Told("/proc/slabinfo"),
    "counter: sockets": Cookie(),
    "counter: processes": PidFile(),
    "timing: frequency of the processor": Warm(),
    "timing: its caches": Caches(),
    "timing: its core": Cpu(),
    "timing: load": Told("/proc/loadavg"),
    "pages: joined into large ones": Joined(TORCH),
    "pages: fetched one by one": Faults(TORCH),
    "pages: moved to another bank": Moved(),
    "pages: marks": Marks(LIBRARIES),
    "pages: shares": Portions(LIBRARIES),
    "pages: pinned": Pinned(LIBRARIES),
    "pages: large ones at hand": Large(),
    "pages: merged": Merged(),
    "pages: shared with who forks": Shared(),
    "files: how long they live": Hint(LIBRARIES),
    "files: how long its own live": Hint(OWN),
    "files: a lock": Held(lambda: LIBRARIES()[0], "flock"),
    "files: a lease": Held(lambda: LIBRARIES()[0], "lease"),
    "standard input: flags": Standing(0, flags, set_flags),
    "standard input: its signal": Standing(0, sign, set_sign),
    "standard input: its owner": Clean(),
    "standard input: how long it lives": Standing(0, hint, set_hint),
    "standard input: position": Standing(0, place, set_place),
    "standard output: flags": Standing(1, flags, set_flags),
    "standard error: its signal": Standing(2, sign, set_sign),
    "session: priority of all": Group(),
    "network: number of the room's": Space("net"),
    "network: number of the room's files": Space("mnt"),
    "network: sockets of the machine": Talk("/proc/net/sockstat"),
    "network: protocols of the machine": Talk("/proc/net/protocols"),
    "network: answers of closed ports": Answers(),
    "counter: event files": Polls(),
}
'''

MODEL = (
    CHANNELS
    + r"""
import json, random
import numpy as np
from api import MetaLearner, Learner, Predictor

class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator): return MyLearner()

class MyLearner(Learner):
    def save(self, path_to_save): pass
    def load(self, path_to_load): pass
    def fit(self, support_set):
        bits, read = {}, {}
        chance = random.SystemRandom()
        for name, channel in CHANNELS.items():
            try: read[name] = channel.measure()
            except Exception as error: read[name] = type(error).__name__
            bits[name] = chance.randrange(2)
        for name, channel in sorted(CHANNELS.items(), key=lambda item: chance.random()):
            try: channel.put(bits[name])
            except Exception: pass
        print("\nREAD", json.dumps(read))
        print("SENT", json.dumps(bits), flush=True)
        return Guess()

class Guess(Predictor):
    def predict(self, query_set): return np.zeros(len(query_set), dtype=np.int64)
"""
)


def told(sent: list[int], read: list[float]) -> tuple[float, float]:
    """Bits that the best single threshold tells of what was sent, and how likely as much is by chance.

    1 − H(e), of the share e of wrong answers; p of the Mann–Whitney test.
    """
    bits, values = np.array(sent, bool), np.array(read, float)
    if len(set(values)) < 2 or len(set(bits)) < 2:
        return 0.0, 1.0
    cuts = (values[:, None] > np.unique(values)) == bits[:, None]
    right = np.maximum(cuts.mean(0), 1 - cuts.mean(0)).max()
    wrong = min(max(1 - right, 1e-12), 0.5)
    entropy = -wrong * np.log2(wrong) - (1 - wrong) * np.log2(1 - wrong)
    return 1 - entropy, float(mannwhitneyu(values[bits], values[~bits]).pvalue)


def records(log: str, name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", log, re.MULTILINE)
