"""One emulated machine: a disk on top of the image, an agent to talk to, and a way to keep and restore a running guest.

A machine belongs to its process: qemu ends when the process does, however that happens."""

import base64
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1


class Gone(Exception):
    """The guest ended, or went through a reboot, while it was asked something."""


class Failed(Exception):
    """The machine does not do what it should: no boot, no answer in time."""


def _end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    """`directory` is the machine's own; what was in it goes."""

    def __init__(self, disk, payload, directory):
        self.disk, self.payload, self.directory = disk, payload, directory
        self.qemu = self.agent = None
        self.boots = 0
        self.boot_id = ""
        self.buffer = b""

    def path(self, name):
        return os.path.join(self.directory, name)

    # --- life

    def create(self, snapshot=None):
        """A fresh disk: the image's, or the one that `keep` left."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        if snapshot:
            for name in os.listdir(snapshot):
                subprocess.run(["cp", "--sparse=always", os.path.join(snapshot, name), self.path(name)], check=True)
        else:
            image = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", os.path.abspath(self.disk)]
            subprocess.run([*image, self.path("disk.qcow2")], check=True)
            self.choose(self.disk)

    def choose(self, raw):
        """What a boot loader does: the entry with the highest version, read from the disk itself."""

        def debugfs(command):
            return subprocess.run(["debugfs", "-R", command, raw], capture_output=True, check=True).stdout.decode()

        loader = re.search(r'Fast link dest: "(.*)"', debugfs("stat /boot/loader")).group(1)
        names = re.findall(r"/([^/\n]*\.conf)/", debugfs(f"ls -p /boot/{loader}/entries"))
        entries = []
        for name in names:
            text = debugfs(f"cat /boot/{loader}/entries/{name}")
            entries.append(dict(line.split(None, 1) for line in text.splitlines() if " " in line))
        entry = max(entries, key=lambda e: int(e.get("version", "0")))
        for key, name in (("linux", "vmlinuz"), ("initrd", "initrd")):
            debugfs(f"dump /boot{entry[key]} {self.path(name)}")
        with open(self.path("cmdline"), "w", encoding="utf-8") as file:
            file.write(entry["options"])

    def start(self, load=None, timeout=400):
        """Boots, or goes on where `load` (the name of a snapshot) was taken."""
        with open(self.path("cmdline"), encoding="utf-8") as file:
            cmdline = file.read().strip() + " rw console=ttyS0 panic=-1 quiet"
        for name in ("agent", "monitor"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        arguments = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max", "-smp", "2", "-m", "1024"]
        arguments += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        arguments += ["-chardev", f"file,id=console,path={self.path('console')},append=on", "-serial", "chardev:console"]
        arguments += ["-kernel", self.path("vmlinuz"), "-initrd", self.path("initrd"), "-append", cmdline]
        arguments += ["-drive", f"if=none,id=d0,file={self.path('disk.qcow2')},cache=unsafe", "-device", "virtio-blk-pci,drive=d0"]
        arguments += ["-drive", f"if=none,id=d1,file={self.payload},format=raw,readonly=on", "-device", "virtio-blk-pci,drive=d1"]
        arguments += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={self.path('agent')},server=on,wait=off"]
        arguments += ["-device", "virtserialport,chardev=agent,name=transient.agent", "-device", "virtio-rng-pci"]
        arguments += ["-qmp", f"unix:{self.path('monitor')},server=on,wait=off"]
        if load:
            arguments += ["-loadvm", load]
        with open(self.path("qemu.log"), "ab") as log:
            self.qemu = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_end_with_parent
            )
        self.buffer = b""
        self.agent = self._connect("agent")
        if load:
            status, text = self.ask("cat /proc/sys/kernel/random/boot_id", timeout)
            if status != 0:
                raise Failed(f"the restored guest does not answer: {text}")
            self.boot_id = text.strip()
        else:
            self.boots += 1
            self.wait_ready(timeout)

    def wait_ready(self, timeout=400):
        try:
            header, text = self._answer(time.monotonic() + timeout)
        except Gone as gone:
            raise Failed(f"the guest did not come up: {gone}\n{self.console()}") from gone
        if header != "READY":
            raise Failed(f"not the first word of an agent: {header}")
        self.boot_id = text.strip()

    def down(self, timeout=400):
        """Waits for the end of the guest."""
        try:
            self.qemu.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"the guest does not go down\n{self.console()}") from None
        self._close()

    def boot_again(self, changed):
        """After the guest went down; `changed` when the boot entries may have changed."""
        if changed:
            raw = self.path("raw")
            subprocess.run(["qemu-img", "convert", "-O", "raw", self.path("disk.qcow2"), raw], check=True)
            self.choose(raw)
            os.unlink(raw)
        self.start()

    def kill(self):
        """Pulls the plug."""
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()
        self._close()

    def _close(self):
        if self.agent:
            self.agent.close()
        self.agent = self.qemu = None

    def keep(self, directory):
        """Saves the running guest into `directory`; this machine ends."""
        monitor = self._connect("monitor")
        file = monitor.makefile("rw")
        for command in ({"execute": "qmp_capabilities"}, {"execute": "human-monitor-command", "arguments": {"command-line": "savevm up"}}):
            file.write(json.dumps(command) + "\n")
            file.flush()
            while True:
                answer = json.loads(file.readline())
                if "return" in answer or "error" in answer:
                    break
            if answer.get("return"):
                raise Failed(f"the guest cannot be saved: {answer}")
        self.kill()
        os.makedirs(directory + ".new")
        for name in ("disk.qcow2", "vmlinuz", "initrd", "cmdline"):
            os.rename(self.path(name), os.path.join(directory + ".new", name))
        os.rename(directory + ".new", directory)

    # --- talk

    def _connect(self, name):
        for _ in range(200):
            try:
                # The path of a socket is limited to 108 bytes; through a descriptor any directory will do.
                fd = os.open(self.directory, os.O_PATH)
                try:
                    sock = socket.socket(socket.AF_UNIX)
                    sock.connect(f"/proc/self/fd/{fd}/{name}")
                    return sock
                finally:
                    os.close(fd)
            except (FileNotFoundError, ConnectionRefusedError):
                if self.qemu.poll() is not None:
                    break
                time.sleep(0.05)
        with open(self.path("qemu.log"), encoding="utf-8", errors="replace") as log:
            raise Failed(f"qemu did not start: {log.read()}")

    def _read(self, enough, deadline):
        """Bytes up to what `enough(buffer)` says is their number."""
        while True:
            count = enough(self.buffer)
            if count is not None and count <= len(self.buffer):
                data, self.buffer = self.buffer[:count], self.buffer[count:]
                return data
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failed("no answer in time")
            self.agent.settimeout(left)
            try:
                data = self.agent.recv(1 << 16)
            except TimeoutError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone("the guest went down")
            self.buffer += data

    def _answer(self, deadline):
        line = self._read(lambda b: b.find(b"\n") + 1 or None, deadline).decode()
        header, status, length = line.split()
        text = self._read(lambda b: int(length), deadline).decode(errors="replace")
        self.status = int(status)
        return header, text

    def ask(self, script, timeout=600):
        """Runs a bash script in the guest: exit status and output. `Gone` when the guest ends or its agent starts anew."""
        question = base64.b64encode(script.encode()).decode()
        try:
            self.agent.sendall(f"q {question}\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            raise Gone("the guest went down") from None
        header, text = self._answer(time.monotonic() + timeout)
        if header == "READY":
            self.boot_id = text.strip()
            raise Gone("soft reboot")
        return self.status, text

    def console(self, lines=15):
        """The end of what the kernel and systemd said."""
        try:
            with open(self.path("console"), encoding="utf-8", errors="replace") as file:
                return "\n".join(file.read().splitlines()[-lines:])
        except FileNotFoundError:
            return ""
