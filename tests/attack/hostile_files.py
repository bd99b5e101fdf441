"""Learners' files that attack the checker or the machine; each is followed by a right engine.

`VICTIM` is a file outside, `FOLDER` the folder it is in, `EMPTY` an empty folder in it. Nothing of
this may happen: the folder stays as it is, the file scores nothing, and the teacher is told.
"""

import sys
from pathlib import Path

import pytest

from gradwalk.course.checker import trials

OS = "import sys\nos = sys.modules['os']\n"
# The import that does not ask; it is in a closure.
REAL = """
def real(name):
    for cell in __import__.__closure__ or ():
        if getattr(cell.cell_contents, "__name__", "") == "__import__":
            module = cell.cell_contents(name)
            for part in name.split(".")[1:]:
                module = getattr(module, part)
            return module
"""
# Silence every object of the checker's that a frame leads to; then do something.
OFF = f"""
{OS}
def silence(thing):
    if type(thing).__module__ == "__main__" and hasattr(thing, "__dict__"):
        for name, value in list(vars(thing).items()):
            if callable(value):
                setattr(thing, name, lambda *a, **k: None)
            elif isinstance(value, bool):
                setattr(thing, name, True)

def off(frame):
    while frame is not None:
        for thing in list(frame.f_locals.values()):
            silence(thing)
        frame = frame.f_back
"""
MAKE = "\nos.mkdir('FOLDER/made')\n"

FILES = {
    "remove": OS + "os.remove('VICTIM')",
    "unlink": "import sys\nsys.modules['posix'].unlink('VICTIM')",
    "unlink in a folder": OS
    + "os.unlink('victim', dir_fd=os.open('FOLDER', os.O_RDONLY | os.O_DIRECTORY))",
    "rmdir": OS + "os.rmdir('EMPTY')",
    "rename": OS + "os.rename('VICTIM', 'VICTIM.old')",
    "replace": OS + "os.replace('VICTIM', 'FOLDER/other')",
    "renames": OS + "os.renames('VICTIM', 'FOLDER/a/b')",
    "mkdir": OS + "os.mkdir('FOLDER/made')",
    "makedirs": OS + "os.makedirs('FOLDER/made/deeper')",
    "symlink": OS + "os.symlink('/', 'FOLDER/made')",
    "link": OS + "os.link('VICTIM', 'FOLDER/made')",
    "open to create": OS + "os.close(os.open('FOLDER/made', os.O_CREAT | os.O_WRONLY))",
    "open to append": "open('VICTIM', 'a')",
    "open to empty": "open('VICTIM', 'w')",
    "open exclusively": "open('FOLDER/made', 'x')",
    "a library's file to write": OS + "open(os.__file__, 'r+')",
    "FileIO": "import sys\nsys.modules['_io'].FileIO('FOLDER/made', 'w')",
    "an opener": OS + "open('FOLDER/made', 'w', opener=lambda p, f: os.open(p, os.O_CREAT))",
    "a nameless file": OS + "os.open('FOLDER', os.O_TMPFILE | os.O_RDWR)",
    "truncate": OS + "os.truncate('VICTIM', 0)",
    "chmod": OS + "os.chmod('VICTIM', 0o777)",
    "chown": OS + "os.chown('VICTIM', 1, 1)",
    "utime": OS + "os.utime('VICTIM', (0, 0))",
    "setxattr": OS + "os.setxattr('VICTIM', 'user.x', b'1')",
    "mknod": OS + "os.mknod('FOLDER/made')",
    "mkfifo": OS + "os.mkfifo('FOLDER/made')",
    "a file in memory": OS + "os.memfd_create('x')",
    "in the working folder": OS + "os.mkdir('made')",
    "goes there first": OS + "os.chdir('FOLDER')\nos.mkdir('made')",
    "pathlib": REAL + "real('pathlib').Path('VICTIM').unlink()",
    "pathlib writes": REAL + "real('pathlib').Path('FOLDER/made').write_text('x')",
    "shutil": REAL + "real('shutil').rmtree('FOLDER')",
    "shutil moves": REAL + "real('shutil').move('VICTIM', 'FOLDER/made')",
    "tempfile": REAL + "real('tempfile').mkdtemp(dir='FOLDER')",
    "sqlite": REAL + "real('sqlite3').connect('FOLDER/made').execute('create table t (x)')",
    "memory as a file": "open('/proc/self/mem', 'r+b')",
    "names a file oddly": (
        "class Name(str):\n    def __eq__(self, other):\n        return True\n"
        "    def __repr__(self):\n        raise ValueError\n    __hash__ = str.__hash__\n"
        "try:\n    open(Name('VICTIM'), 'a')\nexcept ValueError:\n    pass"
    ),
    "a null in a name": OS + "try:\n    os.remove('VICTIM\\0')\nfinally:\n    os.remove('VICTIM')",
}
PROCESSES = {
    "fork": OS + "os.fork() or os._exit(0)",
    "forkpty": OS + "os.forkpty()[0] or os._exit(0)",
    "fork, caught": OS + "try:\n    os.fork() or os._exit(0)\nexcept BaseException:\n    pass",
    "posix_spawn": OS + "os.posix_spawn('/bin/true', ['true'], {})",
    "spawn": OS + "os.spawnv(os.P_NOWAIT, '/bin/true', ['true'])",
    "execv": OS + "os.execv('/bin/true', ['true'])",
    "execv of Python": OS + "os.execv(sys.executable, [sys.executable, '-c', 'pass'])",
    "system": OS + "os.system('touch FOLDER/made')",
    "popen": OS + "os.popen('touch FOLDER/made').read()",
    "subprocess": REAL + "real('subprocess').run(['touch', 'FOLDER/made'])",
    "fork_exec": REAL + "import sys\nos = sys.modules['os']\n"
    "real('_posixsubprocess').fork_exec([b'/bin/mkdir', b'FOLDER/made'], [b'/bin/mkdir'], True, "
    "(), None, None, -1, -1, -1, -1, -1, -1, *os.pipe(), False, False, 0, None, None, None, -1, "
    "None, False)",
    "multiprocessing": REAL + "real('multiprocessing').Process(target=print).start()",
    "a thread": "import sys\nsys.modules['_thread'].start_new_thread(print, ())",
    "threading": REAL + "real('threading').Thread(target=print).start()",
    "a pool": REAL + "real('concurrent.futures').ThreadPoolExecutor(1).submit(print).result()",
    "a thread of faulthandler": REAL
    + "real('faulthandler').dump_traceback_later(0.01, repeat=True)",
    "a socket": REAL + "real('socket').socket()",
    "a pair of sockets": REAL + "real('_socket').socketpair()",
    "asyncio": REAL + "import sys\nreal('asyncio').run(real('asyncio').sleep(0))",
    "kills its parent": OS + "os.kill(os.getppid(), 0)",
    "kills a group": OS + "os.killpg(1, 0)",
    "an alarm": "import sys\nsys.modules['_signal'].setitimer(0, 0.001)",
    "leaves": OS + "os._exit(0)",
    "aborts": OS + "os.abort()",
    "leaves in a destructor": OS
    + "class Last:\n    def __del__(self):\n        os._exit(0)\nlast = Last()\ndel last",
}
FRAMES = {
    "_getframe": OFF + "off(sys._getframe())" + MAKE,
    "inspect": OFF + "import dataclasses\noff(dataclasses.inspect.currentframe())" + MAKE,
    "inspect's stack": OFF + "import dataclasses\noff(dataclasses.inspect.stack()[0].frame)" + MAKE,
    "walk_stack": OFF + REAL + "off(next(real('traceback').walk_stack(None))[0])" + MAKE,
    "copy": OFF + "import copy\nclass Evil:\n    def __reduce_ex__(self, version):\n"
    "        return sys._getframe, (0,)\noff(copy.copy(Evil()))" + MAKE,
    "ChainMap": OFF + "import collections\n"
    "off(collections.ChainMap(collections.defaultdict(sys._getframe))['x'])" + MAKE,
    "namedtuple": OFF + "import collections, functools, itertools\nfound = []\n"
    "frames = iter(functools.partial(sys._getframe, 0), None)\ntry:\n"
    "    collections.namedtuple('N', map(found.append, itertools.islice(frames, 1)))\n"
    "except ValueError:\n    pass\noff(found[0])" + MAKE,
    "a contextlib callback": OFF
    + "import contextlib\nfound = []\nwith contextlib.ExitStack() as stack:\n"
    "    stack.callback(lambda: found.append(sys._getframe()))\noff(found[0])" + MAKE,
    "a traceback": OFF
    + "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    off(e.__traceback__.tb_frame)"
    + MAKE,
    "a traceback by its type": OFF + "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
    "    off(type(e.__traceback__).tb_frame.__get__(e.__traceback__))" + MAKE,
    "operator reads it": OFF + "import operator\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
    "    off(operator.attrgetter('__traceback__.tb_frame')(e))" + MAKE,
    "a generator": OFF
    + "def g():\n    yield (made.gi_frame.f_back)\nmade = g()\noff(next(made))"
    + MAKE,
    "a coroutine": OFF + "async def c():\n    off(made.cr_frame.f_back)\nmade = c()\n"
    "try:\n    made.send(None)\nexcept StopIteration:\n    pass" + MAKE,
    "all frames": OFF + "off(list(sys._current_frames().values())[0])" + MAKE,
    "all exceptions": OFF + "try:\n    1 / 0\nexcept ZeroDivisionError:\n"
    "    found = list(sys._current_exceptions().values())[0]\nsilence(found)" + MAKE,
    "gc": OFF + "for x in sys.modules['gc'].get_objects():\n    silence(x)\n" + MAKE,
    "gc's referrers": OFF + "runner = __import__.__globals__\n"
    "for x in sys.modules['gc'].get_referrers(runner['Watchdog']):\n    silence(x)\n" + MAKE,
    "gc's referents": OFF
    + "found = sys.modules['gc'].get_referents(__import__)\n[silence(x) for x in found]"
    + MAKE,
    "a profile": OFF + "sys.setprofile(lambda frame, *a: off(frame))" + MAKE,
    "a trace": OFF + "sys.settrace(lambda frame, *a: off(frame))" + MAKE,
    "frames alone, and nothing else": OFF + "off(sys._getframe())",
    "inspect alone": OFF + "import dataclasses\noff(dataclasses.inspect.currentframe())",
    "copy alone": OFF + "import copy\nclass Evil:\n    def __reduce_ex__(self, version):\n"
    "        return sys._getframe, (0,)\noff(copy.copy(Evil()))",
    "inspect, caught": OFF
    + "import dataclasses\ntry:\n    off(dataclasses.inspect.currentframe())\n"
    "except Exception:\n    pass",
    "ChainMap, caught": OFF + "import collections\nfind = collections.defaultdict(sys._getframe)\n"
    "try:\n    off(collections.ChainMap(find)['x'])\nexcept Exception:\n    pass",
    "a monitor": OFF + "sys.monitoring.use_tool_id(1, 'x')\n"
    "sys.monitoring.register_callback(1, sys.monitoring.events.CALL, print)" + MAKE,
}
CHECKER = {
    "the table behind the proxy": OS
    + "class Evil:\n    def __eq__(self, other):\n        other.clear()\n        return True\n"
    "for thing in list(__import__.__globals__.values()):\n"
    "    if type(thing).__name__ == 'mappingproxy' and 'os.fork' in thing:\n"
    "        thing == Evil()\nos.fork() or os._exit(0)",
    "the code of a check": OS + "watch = __import__.__globals__['Watchdog']\n"
    "watch.check_untouched.__code__ = (lambda self: None).__code__\n"
    "watch._audit.__code__ = (lambda self, event, arguments: None).__code__" + MAKE,
    "the defaults of a check": OS + "__import__.__globals__['tag'].__defaults__ = (print,)" + MAKE,
    "the tag": OS + "here = __import__.__globals__\nkept = here['tag']\nhere['tag'] = None\n"
    "try:\n    os.mkdir('FOLDER/made')\nexcept BaseException:\n    pass\nhere['tag'] = kept",
    "the channel's way out": OS + "kept = os._exit\nos._exit = lambda status: None\n"
    "try:\n    os.mkdir('FOLDER/made')\nexcept BaseException:\n    pass\nos._exit = kept",
    "a forged answer": OS
    + "for i in range(3, 40):\n    try:\n        os.write(i, b'L' + bytes(20))\n"
    "    except OSError:\n        pass",
    "closes everything": OS + "os.closerange(0, 256)",
    "reads the requests": OS
    + "for i in range(3, 9):\n    try:\n        os.set_blocking(i, False)\n        os.read(i, 99)\n"
    "    except OSError:\n        pass\nos.write(i, b'x')\nos._exit(0)",
    "a second sys": OFF + "old = sys.modules.pop('sys')\nclass Spec:\n    name = 'sys'\n"
    "new = old.modules['_imp'].create_builtin(Spec)\nold.modules['sys'] = old\n"
    "off(new._getframe())" + MAKE,
    "code with the checker's name": OS + "own = __import__.__code__.co_filename\n"
    "code = compile(\"os.mkdir('FOLDER/made')\", own, 'exec')\nexec(code)",
    "code with a library's name": OS
    + "run = sys.modules['_frozen_importlib']._call_with_frames_removed\n"
    "code = run(compile, \"os.mkdir('FOLDER/made')\", os.__file__, 'exec')\n"
    "run(exec, code, {'os': os})",
    "code remade by copy": OS
    + "import copy\nf = lambda: None\nclass Evil:\n    def __reduce_ex__(self, version):\n"
    "        return f.__code__.replace, ()\n"
    "copy.copy(Evil())",
    "more time": "__import__.__globals__['allow_time'](1000)",
    "more time by a limit": REAL + "real('resource').setrlimit(0, (900, 3600))",
    "ctypes": REAL + "real('ctypes').CDLL(None).mkdir(b'FOLDER/made', 0o777)",
    "_ctypes": REAL
    + "c = real('_ctypes')\nc.call_function(c.dlsym(c.dlopen(None, 2), 'fork'), ())",
    "mmap": REAL + "real('mmap').mmap(-1, 4096)",
    "leaves in a comparison": OS
    + "class Name(str):\n    def __eq__(self, other):\n        raise ValueError\n"
    "    __hash__ = str.__hash__\n"
    "try:\n    open(Name('VICTIM'), 'a')\nexcept ValueError:\n    pass",
    "a hook for gc": OFF
    + "gc = sys.modules['gc']\ngc.callbacks.append(lambda *a: off(sys._getframe()))\n"
    "gc.collect()" + MAKE,
    "garbage": OFF + "gc = sys.modules['gc']\ngc.set_debug(gc.DEBUG_SAVEALL)\n"
    "try:\n    os.stat('/nowhere')\nexcept OSError:\n    pass\ngc.collect()\n"
    "[silence(x) for x in gc.garbage]" + MAKE,
    "an import hook": OS
    + "class Find:\n    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
    "        sys.modules[name] = sys\nsys.meta_path.insert(0, Find)\nimport torch",
}
ENGINES = {
    "torch by its path": REAL
    + f"import sys\nsys.path.insert(0, {str(Path(pytest.__file__).parents[1])!r})\nreal('torch')",
    "gradwalk by its path": REAL
    + f"import sys\nsys.path.insert(0, {str(Path(trials.__file__).parents[3])!r})\n"
    "Value = real('gradwalk').Value",
    "the answers": f"open({str(trials.CHECKED_VALUES)!r}).read()",
    "the answers, bare": OS + f"os.read(os.open({str(trials.CHECKED_VALUES)!r}, os.O_RDONLY), 9)",
    "the answers by linecache": REAL
    + f"real('linecache').getlines({str(trials.CHECKED_VALUES)!r})",
    "the parent's memory": OS + "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "the environment": OS + "open('/proc/self/environ', 'rb')",
}
ALL = {
    **{f"files: {name}": code for name, code in FILES.items()},
    **{f"processes: {name}": code for name, code in PROCESSES.items()},
    **{f"frames: {name}": code for name, code in FRAMES.items()},
    **{f"checker: {name}": code for name, code in CHECKER.items()},
    **{f"engines: {name}": code for name, code in ENGINES.items()},
}
if sys.version_info < (3, 12):
    del ALL["frames: a monitor"]


def hostile(name: str, folder: Path, engine: str) -> str:
    """The file: the attack, then a right engine."""
    code = ALL[name].replace("VICTIM", str(folder / "victim"))
    code = code.replace("EMPTY", str(folder / "empty")).replace("FOLDER", str(folder))
    return f"{code}\n{engine}"


def lay_out(folder: Path) -> list[tuple[str, int, int, int]]:
    """Put something outside that can be harmed; returns what it looks like."""
    (folder / "empty").mkdir(parents=True)
    (folder / "victim").write_text("grades", encoding="utf-8")
    return looks(folder)


def looks(folder: Path) -> list[tuple[str, int, int, int]]:
    """Names, sizes, rights and times of everything below."""
    found = sorted([folder, *folder.rglob("*")])
    return [
        (str(p), s.st_size if p.is_file() else 0, s.st_mode, s.st_mtime_ns)
        for p in found
        for s in [p.lstat()]
    ]
