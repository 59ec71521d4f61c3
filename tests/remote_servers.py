"""Servers on loopback for tests of URLs: a web server, a real S3 interface, a proxy that fails now and then."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        self.server.requests.append(f"{self.command} {self.path}")  # type: ignore[attr-defined]


@contextmanager
def web_server(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The files of a folder, with pages that list folders; its address, and the requests it answered."""
    with served(partial(_Quiet, directory=str(folder))) as server:
        yield f"http://127.0.0.1:{server.server_port}", server.requests


@contextmanager
def served(handler: Any) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def s3_server(**environment: str) -> Iterator[str]:
    """A process with moto's S3; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            match = re.search(r"Running on (http://127\.0\.0\.1:\d+)", line)
            if match:
                break
        else:
            raise AssertionError("".join(lines))
        threading.Thread(target=process.stderr.read, daemon=True).start()  # so that its log never blocks it
        yield match[1]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def flaky_proxy(target: str, every: int = 10) -> Iterator[tuple[str, list[str]]]:
    """Hands requests on to ``target``; every tenth is refused: by 503, by silence, by an answer that is cut short."""
    counted = threading.Lock()
    state = {"requests": 0}
    failed: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with counted:
                state["requests"] += 1
                number = state["requests"]
            fails = number % every == 0
            if fails:
                failed.append(f"{self.command} {self.path}")
            if fails and number // every % 3 == 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fails and (number // every % 3 == 1 or self.command != "GET"):
                self.send_response(503, "Slow Down")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(urlsplit(target).netloc, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                    self.send_header(name, value)
            if answer.getheader("Content-Length") is None:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if fails:
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with served(Proxy) as server:
        yield f"http://127.0.0.1:{server.server_port}", failed


def s3_client(endpoint: str, **keys: str) -> Any:
    """boto3's own client, to look at a bucket independently."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys.get("key", "testing"),
        aws_secret_access_key=keys.get("secret", "testing"),
    )


def bucket_files(endpoint: str, bucket: str) -> dict[str, bytes]:
    """Every object of a bucket, read by boto3."""
    client = s3_client(endpoint)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    names = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    files = {}
    for name in names:
        with suppress(client.exceptions.NoSuchKey):  # deleted since it was listed
            files[name] = client.get_object(Bucket=bucket, Key=name)["Body"].read()
    return files
