/** A signal ends the shipped server as fast with viewers of its status as without them, whatever these are doing. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually } from "../../../controlplane/api.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { namespace, type ServedGroup, serveGroup } from "../../../support/served-group.ts";
import { Server } from "../../../support/server.ts";

const get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const kinds = ["answered", "in the middle of its head", "in the middle of its body", "reading nothing"] as const;
type Kind = (typeof kinds)[number];

/** What cutting them off may take in addition. */
const mostMoreMs = 500;

/** Requests of a client that reads nothing: no buffer between the two holds all of their answers. */
const unread = 1_000;

describe("a signal to the shipped server with STATUS_LISTEN", () => {
  let stage: ServedGroup;
  let folder: string;
  let kubeconfig: string;

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 20, drop: 0 });
    folder = await mkdtemp(join(tmpdir(), "sluice-status-ending-"));
    kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
  });

  after(async () => {
    await stage?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  async function start() {
    // On a slow machine it would otherwise end slow clients before the signal.
    const settings = { STATUS_LISTEN: "127.0.0.1:0", REQUEST_TIMEOUT: "5m" };
    const server = await Server.start({ kubeconfig, namespace, settings });
    await server.ready();
    await server.status();
    const line = server.log.find(({ statusPort }) => statusPort !== undefined);
    return { server, port: Number(line?.statusPort) };
  }

  /** Milliseconds from the signal until the process has ended. */
  async function endingMs(server: Server): Promise<number> {
    const startedMs = performance.now();
    const { summary } = await server.stop();
    assert.equal(summary, "exit code 0");
    return performance.now() - startedMs;
  }

  /** Connects, and resolves when the server is as far with it as its kind says. */
  async function open(port: number, kind: Kind): Promise<Socket> {
    const socket = connect(port, "127.0.0.1");
    // The server may end it in any way.
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(get);
    await once(socket, "data");
    if (kind === "answered") socket.resume();
    if (kind === "in the middle of its head") socket.resume().write(get.slice(0, -10));
    if (kind === "in the middle of its body") socket.resume().write(`${get.slice(0, -2)}Content-Length: 100\r\n\r\n1`);
    if (kind === "reading nothing") {
      socket.pause();
      socket.write(get.repeat(unread));
    }
    return socket;
  }

  /** Resolves when the server answers no more, because its clients do not read what it has answered. */
  async function untilStuck(server: Server): Promise<void> {
    let before = 0;
    const answered = await eventually(
      "answers that cannot be sent",
      20_000,
      async () => {
        const count = await server.metric("sluice_status_requests_total", { code: "200" });
        const isStuck = count === before;
        before = count;
        return isStuck ? count : undefined;
      },
      250,
    );
    assert.ok(answered < 16 * unread, `${answered} answers`);
  }

  test("ends it within a second while 64 viewers are connected, half of them in the middle of requests or reading nothing", async () => {
    const endings: { readonly aloneMs: number; readonly besideMs: number }[] = [];
    // What else the machine does makes some of them slower, and none faster.
    for (let round = 0; round < 3; round++) {
      const [alone, { server, port }] = await Promise.all([start(), start()]);
      const sockets = await Promise.all(kinds.flatMap((kind) => Array.from({ length: 16 }, () => open(port, kind))));
      await untilStuck(server);
      assert.equal(sockets.filter(({ closed }) => !closed).length, 64);
      const [aloneMs, besideMs] = await Promise.all([endingMs(alone.server), endingMs(server)]);
      endings.push({ aloneMs, besideMs });
      for (const socket of sockets) socket.destroy();
    }
    const aloneMs = Math.min(...endings.map((one) => one.aloneMs));
    const besideMs = Math.min(...endings.map((one) => one.besideMs));
    assert.ok(besideMs < 1_000 && besideMs < aloneMs + mostMoreMs, JSON.stringify(endings));
  });
});
