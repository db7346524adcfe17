#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon is called at, besides its usual sockets: TLS with and without certificates of clients, sockets that are handed over,
and a configuration that is read again. As root."""
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import harness
from test_grpc import H2SPEC_PASSES, TOOLS

OK, INTERNAL, USAGE = range(3)
# Clients on BoringSSL take no Ed25519.
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]


class Authority:
    """A certificate authority of the test's own, by the openssl command."""

    def __init__(self, directory, name):
        self.directory, self.name = directory, name
        self.certificate = directory / f"{name}.pem"
        self.key = directory / f"{name}.key"
        self.openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.certificate, "-days", 2,
                     "-subj", f"/CN={name}")

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def sign(self, name, subject, names="IP:127.0.0.1,DNS:localhost"):
        certificate, key, request, extensions = (self.directory / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
        extensions.write_text(f"subjectAltName={names}\n")
        self.openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", subject)
        self.openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", 2,
                     "-extfile", extensions, "-out", certificate)
        return certificate, key

    def revoke(self, *certificates):
        """The list of the certificates that it has revoked."""
        database, settings, revoked = (self.directory / f"{self.name}.{end}" for end in ("database", "settings", "crl"))
        if not database.exists():
            database.touch()
        settings.write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {database}\ndefault_md = sha256\ndefault_crl_days = 2\n")
        arguments = ("-config", settings, "-cert", self.certificate, "-keyfile", self.key)
        for certificate in certificates:
            self.openssl("ca", *arguments, "-revoke", certificate)
        self.openssl("ca", *arguments, "-gencrl", "-out", revoked)
        return revoked


class Tls(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory, "authority")
        self.certificate, self.key = self.authority.sign("server", "/CN=tfprofd")
        self.address = f"127.0.0.1:{harness.free_port()}"

    def users(self, *lines, name="users"):
        """The file of the certificates' users."""
        path = self.directory / name
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o644)
        return path

    def serve(self, *arguments, listen=None):
        if "--tls-client-ca" in arguments and "--tls-users" not in arguments:
            arguments = (*arguments, "--tls-users", self.users("root CN=someone,O=Here", "root CN=someone"))
        return self.start(harness.Daemon, "--tls-listen", listen or self.address, "--tls-cert", self.certificate, "--tls-key", self.key, *arguments)

    def health(self, credentials):
        with grpc.secure_channel(self.address, credentials, options=[("grpc.enable_http_proxy", 0)]) as channel:
            return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20).status

    def ctl(self, *arguments, address=None, ca=None):
        return harness.run(harness.OUT / "tfprofctl", "--daemon", address or self.address, "--tls", "--ca", ca or self.authority.certificate,
                           *arguments, "targets", "--json")

    def test_h2spec(self):
        self.serve()
        host, port = self.address.split(":")
        done = harness.run(TOOLS / "h2spec", "-h", host, "-p", port, "-o", 2, "-t", "-k")
        counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
        print(f"     {counts[0]}")
        self.assertGreaterEqual(int(counts[2]), H2SPEC_PASSES, done.stdout)

    def test_clients_need_no_certificate_on_loopback_unless_configured(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.serve()
        harness.wait_target(daemon, server.pid)
        root = self.authority.certificate.read_bytes()
        self.assertEqual(self.health(grpc.ssl_channel_credentials(root)), health_pb2.HealthCheckResponse.SERVING)
        for address in (self.address, self.address.replace("127.0.0.1", "localhost")):
            command = self.ctl(address=address)
            self.assertEqual(command.status, OK, command.stderr)
            self.assertEqual([t["pid"] for t in command.json["targets"]], [server.pid])
        done = harness.run(TOOLS / "grpcurl", "-cacert", self.authority.certificate, self.address, "tensorflow.ProfilerService/Monitor")
        self.assertIn("1 process to profile", done.stdout)
        command = harness.run(harness.OUT / "tfprofctl", "--daemon", self.address, "--tls", "--ca", self.authority.certificate, "capture",
                              "--pid", server.pid, "--duration", "300ms", "-o", self.directory / "logdir")
        self.assertEqual(command.status, OK, command.stderr)

    def test_a_server_with_a_wrong_certificate_is_refused(self):
        self.serve()
        other = Authority(self.directory, "other")
        command = self.ctl(ca=other.certificate)
        self.assertEqual(command.status, INTERNAL)
        self.assertRegex(command.stderr, "cannot connect to the daemon at .* by TLS: (self-signed certificate|unable to get local issuer)")
        self.certificate, self.key = self.authority.sign("elsewhere", "/CN=elsewhere", "DNS:elsewhere")
        self.address = f"127.0.0.1:{harness.free_port()}"
        self.serve()
        command = self.ctl()
        self.assertRegex(command.stderr, "IP address mismatch")

    def test_clients_without_a_certificate_of_the_authority_are_refused(self):
        self.serve("--tls-client-ca", self.authority.certificate)
        root = self.authority.certificate.read_bytes()
        mine = self.authority.sign("client", "/O=Here/CN=someone")
        foreign = Authority(self.directory, "other").sign("stranger", "/CN=someone")
        command = self.ctl()
        self.assertEqual(command.status, INTERNAL)
        self.assertIn("the connection to the daemon failed: tlsv13 alert certificate required", command.stderr)
        command = self.ctl("--cert", foreign[0], "--key", foreign[1])
        self.assertRegex(command.stderr, "the connection to the daemon failed: .*alert")
        command = self.ctl("--cert", mine[0], "--key", mine[1])
        self.assertEqual(command.status, OK, command.stderr)
        for pair, serves in ((foreign, False), (mine, True)):
            credentials = grpc.ssl_channel_credentials(root, pair[1].read_bytes(), pair[0].read_bytes())
            if serves:
                self.assertEqual(self.health(credentials), health_pb2.HealthCheckResponse.SERVING)
            else:
                with self.assertRaises(grpc.RpcError):
                    self.health(credentials)

    def test_a_certificate_counts_as_the_user_in_the_file_and_others_are_refused(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        clients = {name: self.authority.sign(name, f"/O=Here/CN={name}", f"URI:spiffe://here/{name}") for name in ("roots", "nobodys", "named", "unknown")}
        users = self.users("root CN=roots,O=Here", "nobody CN=nobodys,O=Here", "root URI:spiffe://here/named")
        daemon = self.serve("--tls-client-ca", self.authority.certificate, "--tls-users", users)
        harness.wait_target(daemon, server.pid)

        def targets(name):
            command = self.ctl("--cert", clients[name][0], "--key", clients[name][1])
            return [t["pid"] for t in command.json["targets"]] if command.stdout else command.stderr
        self.assertEqual([targets(name) for name in ("roots", "nobodys", "named")], [[server.pid], [], [server.pid]])
        self.assertIn("no user has this certificate", targets("unknown"))
        # The file is read again.
        self.users("root CN=unknown,O=Here", "nobody CN=roots,O=Here")
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "the configuration was reloaded" in daemon.stderr(), 5, "read")
        self.assertEqual([targets(name) for name in ("unknown", "roots")], [[server.pid], []])
        self.assertIn("no user has this certificate", targets("named"))

    def test_a_revoked_certificate_is_refused_after_SIGHUP_and_the_others_are_not(self):
        good, bad = (self.authority.sign(name, "/CN=someone") for name in ("good", "bad"))
        revoked = self.authority.revoke()
        daemon = self.serve("--tls-client-ca", self.authority.certificate, "--tls-crl", revoked)
        for pair in (good, bad):
            command = self.ctl("--cert", pair[0], "--key", pair[1])
            self.assertIn(command.status, (OK, 4), command.stderr)
        self.authority.revoke(bad[0])
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "the configuration was reloaded" in daemon.stderr(), 5, "read")
        self.assertIn("certificate revoked", self.ctl("--cert", bad[0], "--key", bad[1]).stderr)
        self.assertIn(self.ctl("--cert", good[0], "--key", good[1]).status, (OK, 4))

    def test_older_TLS_other_protocols_and_no_TLS_are_refused_without_affecting_others(self):
        self.serve()
        for arguments, alert in ((("-tls1_2", "-alpn", "h2"), "alert protocol version"), (("-tls1_3", "-alpn", "http/1.1"), "alert no application protocol")):
            done = subprocess.run(["openssl", "s_client", "-connect", self.address, *arguments], input="", capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Cipher is (NONE)", done.stdout)
            self.assertIn(alert, done.stderr)
        # One that speaks of no protocol gets no answer.
        context = ssl.create_default_context(cafile=self.authority.certificate)
        with socket.create_connection(self.address.split(":"), 10) as plain, context.wrap_socket(plain, server_hostname="localhost") as silent:
            self.assertEqual(silent.version(), "TLSv1.3")
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                silent.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
                self.assertEqual(silent.recv(1000), b"")
        with socket.create_connection(self.address.split(":")) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
            plain.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                self.assertNotIn(b"HTTP", plain.recv(1000))
        with socket.create_connection(self.address.split(":")):
            self.assertEqual(self.ctl().status, OK)

    def test_beyond_loopback_a_client_must_present_a_certificate(self):
        arguments = ["--tls-listen", "0.0.0.0:1", "--tls-cert", self.certificate, "--tls-key", self.key, "--foreground"]
        command = harness.run(harness.OUT / "tfprofd", *arguments)
        self.assertEqual(command.status, USAGE)
        self.assertIn("requires tls-client-ca", command.stderr)
        users = self.users("4711 CN=someone")
        command = harness.run(harness.OUT / "tfprofd", *arguments, "--tls-client-ca", self.authority.certificate, "--check-config")
        self.assertEqual(command.status, USAGE)
        self.assertIn("tls-client-ca and tls-users must be given together", command.stderr)
        command = harness.run(harness.OUT / "tfprofd", *arguments, "--tls-client-ca", self.authority.certificate, "--tls-users", users, "--check-config")
        self.assertEqual((command.status, command.stdout), (OK, "the configuration is valid\n"))

    def test_files_that_cannot_be_used_are_named(self):
        for bad, message in ((("--tls-cert", self.key), "the certificate cannot be used"),
                             (("--tls-key", self.authority.key), "the key cannot be used with the certificate"),
                             (("--tls-key", self.directory / "none"), "cannot read .*/none: No such file"),
                             (("--tls-client-ca", self.key, "--tls-users", self.users()), "the certificates of the authorities cannot be used"),
                             (("--tls-client-ca", self.authority.certificate, "--tls-users", self.users("nobody-here CN=a", name="bad-users")), "bad-users:1: no user 'nobody-here' in /etc/passwd: use its number"),
                             (("--tls-client-ca", self.authority.certificate, "--tls-users", self.users(), "--tls-crl", self.key), "the list of revoked certificates cannot be used")):
            command = harness.run(harness.OUT / "tfprofd", "--tls-listen", self.address, "--tls-cert", self.certificate, "--tls-key", self.key,
                                  *bad, "--check-config")
            self.assertEqual(command.status, USAGE)
            self.assertRegex(command.stderr, message)
        for bad, message in ((("--cert", self.certificate), "--cert and --key must be given together"),
                             (("--cert", self.key, "--key", self.key), "cannot use TLS: the certificate"),
                             (("--ca", self.directory / "none"), "cannot read .*/none: No such file")):
            command = self.ctl(*bad)
            self.assertEqual(command.status, USAGE)
            self.assertRegex(command.stderr, message)

    def test_a_new_certificate_is_served_after_SIGHUP_and_a_bad_one_is_not(self):
        daemon = self.serve()
        before = self.certificate.read_bytes()
        self.assertEqual(self.served(), self.serial(self.certificate))
        replacement = self.authority.sign("next", "/CN=tfprofd")
        self.certificate.write_bytes(replacement[0].read_bytes())
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "the key cannot be used with the certificate" in daemon.stderr(), 5, "refused, for its key does not fit")
        self.assertEqual(self.ctl().status, OK)
        self.assertNotEqual(self.served(), self.serial(self.certificate))
        self.key.write_bytes(replacement[1].read_bytes())
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: self.served() == self.serial(self.certificate), 5, "the new one is served")
        self.assertNotEqual(before, self.certificate.read_bytes())
        self.assertEqual(self.ctl().status, OK)

    def test_an_authority_that_cannot_be_reloaded_does_not_admit_every_client(self):
        authority = self.directory / "clients.pem"
        authority.write_bytes(self.authority.certificate.read_bytes())
        daemon = self.serve("--tls-client-ca", authority)
        authority.unlink()
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: f"cannot read {authority}" in daemon.stderr(), 5, "refused")
        self.assertIn("certificate required", self.ctl().stderr)
        authority.write_bytes(self.authority.certificate.read_bytes())
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "the configuration was reloaded" in daemon.stderr(), 5, "read")
        self.assertIn("certificate required", self.ctl().stderr)

    def served(self):
        done = subprocess.run(["openssl", "s_client", "-connect", self.address, "-alpn", "h2"], input="", capture_output=True, text=True)
        path = self.directory / "served.pem"
        path.write_text(done.stdout)
        return self.serial(path)

    @staticmethod
    def serial(path):
        return subprocess.run(["openssl", "x509", "-in", path, "-noout", "-serial"], check=True, capture_output=True, text=True).stdout


class Handed(harness.TestCase):
    """Sockets as a service manager hands them over."""

    def serve(self, sockets, names=None, *arguments, check=True):
        fds = [s.fileno() for s in sockets]

        def hand_over():
            # Above all of them first, so that none overwrites another.
            copies = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
            for i, fd in enumerate(copies):
                os.dup2(fd, 3 + i)
                os.close(fd)
            os.environ["LISTEN_PID"] = str(os.getpid())

        script = ("import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])")
        environment = {**os.environ, "LISTEN_FDS": str(len(fds)), **({"LISTEN_FDNAMES": names} if names else {})}
        process = subprocess.Popen([harness.PYTHON, "-c", script, harness.OUT / "tfprofd", "--state-dir", self.directory / "state", "--no-listen",
                                    "--socket", self.directory / "unused", *map(str, arguments)], env=environment, pass_fds=range(3, 3 + len(fds)),
                                   preexec_fn=hand_over, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def listening(self, family, address):
        s = socket.socket(family)
        self.addCleanup(s.close)
        s.bind(address)
        s.listen()
        return s

    def test_handed_over_sockets_are_served_instead_of_the_daemon_s_own(self):
        path = self.directory / "handed.sock"
        sockets = [self.listening(socket.AF_UNIX, str(path)), self.listening(socket.AF_INET, ("127.0.0.1", 0))]
        process = self.serve(sockets)
        address = "127.0.0.1:%d" % sockets[1].getsockname()[1]
        for where in (f"unix:{path}", address):
            command = harness.run(harness.OUT / "tfprofctl", "--daemon", where, "targets")
            self.assertIn(command.status, (OK, 4), command.stderr)
        self.assertFalse((self.directory / "unused").exists())
        process.terminate()
        self.assertEqual(process.wait(10), 0)
        self.assertTrue(path.exists(), "what the daemon did not make is not its to remove")

    def test_an_unencrypted_socket_for_other_hosts_is_refused(self):
        process = self.serve([self.listening(socket.AF_INET, ("0.0.0.0", 0))])
        self.assertEqual(process.wait(20), 1)
        self.assertIn("handed over unencrypted and reachable from other hosts", process.stderr.read())
        process = self.serve([self.listening(socket.AF_INET, ("127.0.0.1", 0))], "tls")
        self.assertEqual(process.wait(20), 1)
        self.assertIn("it must be TCP, with tls-cert and tls-key", process.stderr.read())
        closed = socket.socket()
        self.addCleanup(closed.close)
        process = self.serve([closed])
        self.assertEqual(process.wait(20), 1)
        self.assertIn("not a listening socket", process.stderr.read())


class TargetPorts(harness.TestCase):
    """Ports that are bound until there is a target to serve on them."""
    THIEF = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    for address in "127.0.0.1", "0.0.0.0":
        for options in [], ["SO_REUSEADDR"], ["SO_REUSEPORT"], ["SO_REUSEADDR", "SO_REUSEPORT"]:
            with socket.socket() as thief:
                for option in options:
                    thief.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
                try:
                    thief.bind((address, port))
                    thief.listen()
                    print(address, port, options)
                except OSError:
                    pass
"""

    def stolen(self, daemon):
        first, _, last = daemon.target_ports.partition("-")
        result = harness.run(harness.PYTHON, "-c", self.THIEF, first, last)
        self.assertEqual(result.status, 0, result.stderr)
        return result.stdout

    def test_no_other_user_can_listen_there_before_while_or_after_a_target_has_one(self):
        daemon = self.start(harness.Daemon)
        self.assertEqual(self.stolen(daemon), "")
        server = self.start(harness.NativeServer, ["half_plus_two"])
        address = harness.wait_target(daemon, server.pid)["address"]
        self.assertEqual(self.stolen(daemon), "")
        with socket.create_connection(address.split(":")):
            server.stop()
            harness.wait_until(lambda: server.pid not in harness.ctl_targets(daemon), 10, "the end of the target")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(address.split(":"))
        self.assertEqual(self.stolen(daemon), "")
        # A daemon that starts again has the port of which connections are in TIME_WAIT.
        daemon.stop()
        second = self.start(harness.Daemon, "--target-ports", daemon.target_ports)
        self.assertEqual(self.stolen(daemon), "")
        again = self.start(harness.NativeServer, ["half_plus_two"])
        self.assertEqual(harness.wait_target(second, again.pid)["address"], address)


class Reload(harness.TestCase):
    def test_a_reload_applies_what_can_change_and_names_what_cannot(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        path = self.directory / "tfprofd.conf"
        path.write_text("[daemon]\nmax-duration = 1\n")
        daemon = self.start(harness.Daemon, "--config", path)
        harness.wait_target(daemon, server.pid)

        def capture():
            return harness.ctl_capture(daemon, [server.pid], self.directory / "logdir", duration="1200ms")
        self.assertEqual(capture().status, USAGE)
        path.write_text(f"[daemon]\nmax-duration = 2\nprobe-links = perf-event\n[target {server.pid}]\nlevel = 1\n")
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "the configuration was reloaded" in daemon.stderr(), 5, "it is read")
        self.assertIn("'probe-links' has changed: restart the daemon to apply it", daemon.stderr())
        self.assertEqual(capture().status, OK)
        address = harness.wait_target(daemon, server.pid)["address"]
        self.assertFalse(harness.response_xspace(harness.profile(address, duration_ms=300)).ops())
        path.write_text("[daemon]\nmax-duration = 3\nmax-durations = 1\n")
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "unknown key 'max-durations' (did you mean 'max-duration'?); the configuration and the certificate remain" in daemon.stderr(), 5, "it is refused")
        self.assertEqual(capture().status, OK)


class Metrics(harness.TestCase):
    def get(self, path, method="GET"):
        """(status, body) over TCP, or over the Unix socket."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        if self.path:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self.path))
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def values(self):
        status, text = self.get("/metrics")
        self.assertEqual(status, 200)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertTrue(all(re.fullmatch(r'tfprofd_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.e0-9]+', line) for line in lines), text)
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def test_metrics_cover_captures_requests_and_the_recorder(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",))
        self.path = self.directory / "metrics.sock"
        self.port = harness.free_port()
        self.start(harness.Daemon, "--metrics-listen", f"unix:{self.path}")
        self.assertEqual(self.get("/healthz"), (200, "ok\n"))
        self.path = None
        daemon = self.start(harness.Daemon, "--metrics-listen", f"127.0.0.1:{self.port}", "--recorder", 1, "--recorder-overhead", 100)
        harness.wait_target(daemon, server.pid)
        harness.wait_until(lambda: self.values().get("tfprofd_recorder_processes") == 1, 10, "it records")
        harness.Load(server, count=50).finish()
        self.assertEqual(harness.ctl_capture(daemon, [server.pid], self.directory / "logdir", duration="200ms").status, 5)
        label = f'pid="{server.pid}",process="native_server"'
        count = f"tfprofd_request_duration_seconds_count{{{label}}}"
        values = harness.wait_until(lambda: (v := self.values()).get(count) == 50 and v, 5, "all are counted")
        self.assertEqual(values[f'tfprofd_request_duration_seconds_bucket{{{label},le="+Inf"}}'], 50)
        self.assertGreater(values[f"tfprofd_request_duration_seconds_sum{{{label}}}"], 0)
        buckets = [v for k, v in values.items() if "_bucket" in k]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual((values["tfprofd_targets"], values['tfprofd_captures_total{result="ok"}'], values["tfprofd_captures_running"]), (1, 1, 0))
        self.assertGreater(values["tfprofd_recorder_events_total"], 100)
        if promtool := shutil.which("promtool"):
            done = subprocess.run([promtool, "check", "metrics"], input=self.get("/metrics")[1], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        else:
            harness.skip_part(self, "promtool check metrics: there is no promtool")
        self.assertEqual(self.get("/other")[0], 404)
        self.assertEqual(self.get("/metrics", "POST")[0], 405)
        # Who sends nothing keeps nobody from being answered.
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(10)]
        self.assertEqual(self.get("/healthz")[0], 200)
        for s in silent:
            s.close()


if __name__ == "__main__":
    harness.main()
