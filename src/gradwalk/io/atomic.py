"""Atomic file writes: at any moment the complete old or new file exists.

    with writing(path) as file:
        file.write(...)

A save writes a partial file beside its target, syncs it to disk and renames it. It writes where a
symbolic link leads, and the new file has the rights of the old one. A writer holds a lock on its
partial file, which ends with its process: the next save of the same file removes those that nobody
holds. A device or a pipe has no earlier content to keep, and is written directly.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gradwalk.io.save_errors import explained

try:
    import fcntl
except ImportError:  # Windows, which does not remove files that are open
    fcntl = None  # type: ignore[assignment]

_ABANDONED = 600.0  # seconds after which a partial file without a lock is swept
_MOST_LINKS = 40  # Linux's own limit
_MOST_TRIES = 100  # to hold a partial file before a sweep of another writer finds it
_LONGEST_NAME = 255  # bytes
_SHOWN = 48  # bytes of the target's name in that of its partial file
_HELD, _KEPT = ".held.partial", ".kept.partial"
_RIGHTS = ("system.posix_acl_access", "user.")  # extended attributes that a new file keeps


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Where `save_run` keeps the checkpoint before the last: beside the file a link leads to.

    >>> import gradwalk as gw
    >>> gw.io.previous_of("run.safetensors").name
    'run.safetensors.previous'
    """
    path = Path(path)
    with suppress(OSError):  # links in a circle
        path = followed(path)
    return path.with_name(_cut(path.name, _LONGEST_NAME - 9) + ".previous")


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], keep_previous: bool = False
) -> None:
    """Write these bytes as a whole, or leave the file as it was."""
    with writing(path, keep_previous) as file:
        for chunk in chunks:
            file.write(chunk)


@contextmanager
def writing(path: Path, keep_previous: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends without an error."""
    try:
        target = followed(path)
        facts = _facts(path)
        if facts is not None and stat.S_ISDIR(facts.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if facts is not None and not _is_file(target, facts):
            with open(path, "wb") as file:
                yield file
            return
        _sweep(target)
        with _replacing(target, facts, keep_previous) as file:
            yield file
    except OSError as error:
        raise explained(error, path) from error
    _sync_folder(target.parent)


@contextmanager
def _replacing(
    target: Path, facts: os.stat_result | None, keep_previous: bool
) -> Iterator[IO[bytes]]:
    # Private until it has the rights of the old file; a new one has those of the umask.
    mode = 0o666 if facts is None else 0o600
    partial = _partial(target)
    file: Any = None
    try:
        file = os.fdopen(_create(partial, mode), "wb")
        for _ in range(_MOST_TRIES):
            if _hold(file.fileno()):
                break
            file.close()
            with suppress(OSError):
                partial.unlink()
            partial = _partial(target)
            file = os.fdopen(_create(partial, mode), "wb")
        yield file
        file.flush()
        if facts is not None:
            _keep_rights(file.fileno(), target, facts)
        os.fsync(file.fileno())
        if os.name == "nt":  # which does not rename files that are open
            file.close()
        if keep_previous and facts is not None:
            _keep(target, partial)
        os.replace(partial, target)
        file.close()
    except BaseException:
        with suppress(OSError):  # closing writes what is left to a disk that may be full
            if file is not None:
                file.close()
        with suppress(OSError):
            partial.unlink()
        raise


# -- the target --------------------------------------------------------------------------------


def followed(path: Path) -> Path:
    """The file that a path means: where symbolic links lead, which may not exist yet."""
    for _ in range(_MOST_LINKS + 1):
        try:
            target = path.parent / os.readlink(path)
        except (OSError, ValueError):  # not a link, or nothing is there
            return path
        if _is_planted(path):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        path = target
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_planted(link: Path) -> bool:
    """Whether another user put this link into a folder for everyone: Linux's own rule for /tmp."""
    folder, facts = os.stat(link.parent), os.lstat(link)
    shared = stat.S_ISVTX | stat.S_IWOTH
    if not hasattr(os, "geteuid") or folder.st_mode & shared != shared:
        return False
    return facts.st_uid not in (os.geteuid(), folder.st_uid)


def _facts(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_file(target: Path, facts: os.stat_result) -> bool:
    """Whether this is a file under a name that we found, unlike /dev/stdout that is a pipe."""
    found = _facts(target)
    return stat.S_ISREG(facts.st_mode) and found is not None and os.path.samestat(found, facts)


def _keep_rights(handle: int, target: Path, facts: os.stat_result) -> None:
    """Give the new file the owner, group, mode and access list of the old one, where we may."""
    if not hasattr(os, "fchown"):
        return
    mode, new = stat.S_IMODE(facts.st_mode), os.fstat(handle)
    if (new.st_uid, new.st_gid) != (facts.st_uid, facts.st_gid):
        try:
            os.fchown(handle, facts.st_uid, facts.st_gid)
        except OSError:
            mode &= 0o777  # setuid and setgid would mean another user
            try:
                os.fchown(handle, -1, facts.st_gid)
            except OSError:  # another group gets what everyone has, at most
                mode &= 0o707 | (mode & 0o007) << 3
    with suppress(OSError):  # a file system without modes
        os.fchmod(handle, mode)
    with suppress(OSError, AttributeError):  # not every system has attributes
        for name in os.listxattr(target):
            if name.startswith(_RIGHTS):
                os.setxattr(handle, name, os.getxattr(target, name))


def _keep(target: Path, partial: Path) -> None:
    """Link the present file under its previous name; `target` itself always exists."""
    second = partial.with_name(partial.name.removesuffix(_HELD) + _KEPT)
    try:
        try:
            os.link(target, second)
        except FileNotFoundError:
            return  # removed meanwhile
        except OSError:  # a file system without links
            with open(target, "rb") as old, os.fdopen(_create(second, 0o600), "wb") as copy:
                while data := old.read(1 << 20):
                    copy.write(data)
                copy.flush()
                _keep_rights(copy.fileno(), target, os.fstat(old.fileno()))
        os.replace(second, previous_of(target))
    finally:  # two links to one file: renaming one to the other leaves both
        with suppress(OSError):
            second.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync the folder too, where the system allows it."""
    if os.name != "posix":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # one may write there and not read
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not for folders, on some systems
            why = f"the file is saved, but may not survive a power cut: {error.strerror}"
            raise OSError(error.errno, why, str(folder)) from error
    finally:
        os.close(handle)


# -- partial files -----------------------------------------------------------------------------


def _partial(target: Path) -> Path:
    """A new name beside the target, hardly longer than its own."""
    unique = f"{os.getpid()}-{secrets.token_hex(4)}"
    return target.with_name(f".{_cut(target.name, _SHOWN)}.{unique}{_HELD}")


def _cut(name: str, most: int) -> str:
    """A name of at most so many bytes; of a longer one its beginning and a digest."""
    if len(os.fsencode(name)) <= most:
        return name
    end = "~" + hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    while len(os.fsencode(name)) > most - len(end):
        name = name[:-1]
    return name + end


def _create(partial: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(partial, flags | getattr(os, "O_NOFOLLOW", 0), mode)


def _hold(handle: int) -> bool:
    """Lock a new partial file; False if a sweep was faster. It never waits: anyone may lock."""
    return _lock(handle) is not False and os.fstat(handle).st_nlink > 0


def _lock(handle: int) -> bool | None:
    """Whether this process has the lock now; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sweep(target: Path) -> None:
    """Remove the partial files of writers that no longer live."""
    shown = re.escape(_cut(target.name, _SHOWN))
    pattern = re.compile(rf"(\.{shown}\.\d+-[0-9a-f]+)(\.\w+)?\.partial")
    try:
        found = [match for name in os.listdir(target.parent) if (match := pattern.fullmatch(name))]
    except OSError:
        return
    for match in sorted(found, key=lambda match: match[0]):  # what is held before what is kept
        with suppress(OSError):  # its writer renamed it, another removed it, or we may not
            left = target.with_name(match[0])
            if match[0].endswith(_HELD):
                _remove_unless_held(left)
            elif match[0].endswith(_KEPT):  # for a moment, beside the one that its writer holds
                if not os.path.lexists(target.with_name(match[1] + _HELD)):
                    left.unlink()
            else:  # from before there were locks
                _remove_old(left)


def _remove_unless_held(partial: Path) -> None:
    """Remove a file that no writer holds; locked, so that its writer does not begin to hold it."""
    handle = _open_existing(partial)
    try:
        free = _lock(handle)
        if free:
            partial.unlink()
    finally:
        os.close(handle)
    if free is None:
        _remove_old(partial)


def _remove_old(partial: Path) -> None:
    if time.time() - os.lstat(partial).st_mtime > _ABANDONED:
        partial.unlink()


def _open_existing(partial: Path) -> int:
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(partial, os.O_RDWR | flags)  # NFS locks only what can be written
    except PermissionError:
        return os.open(partial, os.O_RDONLY | flags)
