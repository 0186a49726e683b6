"""A proxy that cuts connections at any byte, like a bad network."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Cutter:
    """Forwards to `target`; cuts the first `cuts` connections, each after fewer than `longest` bytes of the response."""

    def __init__(self, target: str, cuts: int, longest: int, seed: int) -> None:
        self.target, self.left, self.longest = urlsplit(target), cuts, longest
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        houston = socket.create_connection((self.target.hostname, self.target.port))
        threading.Thread(target=pipe, args=(client, houston), daemon=True).start()
        with self.lock:
            limit = self.random.randrange(self.longest) if self.left > 0 else None
        if pipe(houston, client, limit):
            with self.lock:
                self.left -= 1
        close(client, houston)


def pipe(source: socket.socket, sink: socket.socket, limit: int | None = None) -> bool:
    """Passes bytes on until one side ends, or until there were `limit`, which it says."""
    try:
        while piece := source.recv(65536):
            sink.sendall(piece if limit is None else piece[:limit])
            if limit is not None and (limit := limit - len(piece)) <= 0:
                return True
    except OSError:
        pass
    close(source, sink)
    return False


def close(*sockets: socket.socket) -> None:
    for each in sockets:
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()


@contextmanager
def cutter(target: str, *, cuts: int, longest: int, seed: int) -> Iterator[Cutter]:
    proxy = Cutter(target, cuts, longest, seed)
    try:
        yield proxy
    finally:
        proxy.server.close()
