/** 10,000 clients that connect to the status at once and send nothing, against the shipped server in a process of its own. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { cuts, usualBounds } from "../../triggers/server/connection-bounds.ts";
import { eventually } from "../controlplane/api.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { namespace, type ServedGroup, serveGroup } from "../support/served-group.ts";
import { Server } from "../support/server.ts";

const connections = 10_000;
const atOnce = 500;
/** How much its peak of memory may grow, in MiB. An idle connection costs 20 to 60 KB: all at once would take up to 600 MB. */
const mostMebibytes = 150;

/** A short one, so that Node itself ends connections, and one that is longer than the test. */
const requestTimeouts = ["5m", "1s"] as const;

/** A viewer gets the status over a connection that ends with the answer, so that no limit ends it. */
async function view(port: number): Promise<void> {
  const response = await eventually("an answer to a viewer", 30_000, () => getOnce(port).catch(() => undefined));
  assert.equal(response, 200);
}

async function getOnce(port: number): Promise<number> {
  const [response] = await once(get({ port, host: "127.0.0.1", agent: false }), "response");
  response.resume();
  await once(response, "end");
  return response.statusCode;
}

describe("the status of the shipped server", () => {
  let stage: ServedGroup;
  let folder: string;
  let kubeconfig: string;

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 20, drop: 0 });
    folder = await mkdtemp(join(tmpdir(), "sluice-status-connections-"));
    kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
  });

  after(async () => {
    await stage?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  for (const requestTimeout of requestTimeouts)
    test(`with REQUEST_TIMEOUT=${requestTimeout} holds no more than the usual bound of 10,000 connections, counts each that it ends, and serves a further viewer`, async (context) => {
      const settings = { STATUS_LISTEN: "127.0.0.1:0", REQUEST_TIMEOUT: requestTimeout };
      const server = await Server.start({ kubeconfig, namespace, settings });
      context.after(() => server.kill());
      await server.ready();
      const port = Number(server.log.find(({ statusPort }) => statusPort !== undefined)?.statusPort);
      await view(port);
      const peakBefore = await server.peakMebibytes();
      const ended = async () => {
        const counts = cuts.map((reason) =>
          server.metric("sluice_connections_ended_total", { door: "status", reason }),
        );
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
      };
      const before = await ended();
      const sockets: Socket[] = [];
      let connected = 0;
      context.after(() => {
        for (const socket of sockets) socket.destroy();
      });
      for (let batch = 0; batch < connections / atOnce; batch++) {
        const opened = Array.from({ length: atOnce }, () => {
          const socket = connect(port, "127.0.0.1").resume();
          return socket.on("error", () => {}).once("connect", () => connected++);
        });
        sockets.push(...opened);
        await Promise.all(opened.map((socket) => Promise.race([once(socket, "connect"), once(socket, "close")])));
      }
      assert.equal(connected, connections);
      const left = () => sockets.filter(({ closed }) => !closed).length;
      await eventually("no more connections than the bound", 60_000, async () =>
        left() <= usualBounds.mostConnections ? true : undefined,
      );
      await view(port);
      await eventually("the end of all that sent nothing", 60_000, async () => (left() === 0 ? true : undefined));
      const counted = (await ended()) - before;
      const grownBy = (await server.peakMebibytes()) - peakBefore;
      context.diagnostic(`${connected} connected, ${counted} counted, grown by ${Math.round(grownBy)} MiB`);
      assert.equal(counted, connections);
      assert.ok(grownBy <= mostMebibytes, `${grownBy} MiB`);
      await view(port);
    });
});
