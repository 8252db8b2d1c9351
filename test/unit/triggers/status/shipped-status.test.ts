/** The status as the shipped server shows it, of a group on the fake cluster. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { table } from "../../../../triggers/table.ts";
import { eventually } from "../../../controlplane/api.ts";
import { buildServer } from "../../../support/built-server.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { groupName, namespace, newImage, type ServedGroup, serveGroup } from "../../../support/served-group.ts";
import { launchServer, Server } from "../../../support/server.ts";

describe("the shipped server with STATUS_LISTEN", () => {
  let stage: ServedGroup;
  let folder: string;
  let kubeconfig: string;
  const started: Server[] = [];

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
    folder = await mkdtemp(join(tmpdir(), "sluice-status-"));
    kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
  });

  after(async () => {
    // A test that fails leaves its server.
    await Promise.all(started.map((server) => server.stop()));
    await stage?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  async function start(settings: Readonly<Record<string, string>>, program?: string) {
    const server = await Server.start({ kubeconfig, namespace, settings, ...(program && { program }) });
    started.push(server);
    await server.ready();
    const port = await eventually("the port of the status", 10_000, async () => {
      const line = server.log.find(({ statusPort }) => statusPort !== undefined);
      return typeof line?.statusPort === "number" ? line.statusPort : undefined;
    });
    const get = (path = "/", host = "127.0.0.1") =>
      fetch(`http://${host}:${port}${path}`, { headers: { accept: "application/json" } });
    return { server, port, get };
  }

  test("shows a rollout with its zones, verdict and reservations, on the same connection as often as a client likes, and ends with open connections", async () => {
    const { server, port, get } = await start({ STATUS_LISTEN: "127.0.0.1:0" });
    for (const statefulSet of stage.group.statefulSets) stage.world.changeTemplate(statefulSet, newImage);
    const group = await eventually("the rollout in the status", 30_000, async () => {
      const { groups } = (await (await get()).json()) as Status;
      const [first] = groups;
      return first?.state === "working" && first.functions[0]?.recorded.guard === "rolling" ? first : undefined;
    });
    assert.deepEqual([group.namespace, group.group, group.wanted, group.zones.length], [namespace, "db", 6, 3]);
    assert.match(group.functions[0]?.recorded.sentence ?? "", /^rolling db-zone-a/);
    assert.ok(group.zones.some(({ outdated }) => outdated > 0));
    await eventually("the end of the rollout in the status", 60_000, async () => {
      const { groups } = (await (await get("/ui/status")).json()) as Status;
      return groups[0]?.state === "idle" && groups[0].updated === 6 ? true : undefined;
    });
    const events = await eventually("the Events of the rollout in the status", 15_000, async () => {
      const status = (await (await get()).json()) as Status;
      return status.events?.some(({ reason }) => reason === "RolloutCompleted") ? status.events : undefined;
    });
    assert.ok(events.some((event) => event.reason === "RolloutStarted" && event.namespace === namespace));
    const onPort = await fetch(`${server.url}/ui/status`);
    assert.equal(onPort.status, 421);
    assert.match(await onPort.text(), /kubectl port-forward/);
    assert.ok((await server.metric("sluice_status_requests_total", { code: "200" })) >= 2);
    assert.deepEqual(
      server.log.filter(({ reason }) => reason === "status-listen"),
      [],
    );
    // Clients that keep their connections: browsers do.
    const sockets = Array.from({ length: 64 }, () => connect(port, "127.0.0.1"));
    for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await Promise.all(sockets.map((socket) => once(socket, "data")));
    const closed = Promise.all(sockets.map((socket) => once(socket, "close")));
    assert.equal((await server.stop()).code, 0);
    await closed;
  });

  test("explains what every function waits for, where it runs in its own bundle as well", async () => {
    const built = await buildServer();
    const settings = { STATUS_LISTEN: "127.0.0.1:0", FUNCTION: "show-status" };
    const { server, get } = await start(settings, built.program);
    const at = Date.now();
    const waits = table.flatMap(({ name, guards }) => {
      const guard = Object.keys(guards).find((one) => guards[one]?.ends === "person");
      return guard === undefined ? [] : [[name, { guard, zone: "", sentence: "it waits", since: at, at }] as const];
    });
    const verdicts = { "sluice.dev/verdicts": JSON.stringify(Object.fromEntries(waits)) };
    stage.world.annotate({ namespace, name: ledgerName(groupName) }, verdicts, "leases");
    const explained = await eventually("the verdicts in the status", 15_000, async () => {
      const { groups } = (await (await get()).json()) as Status;
      return groups[0]?.functions.length === waits.length ? groups[0].functions : undefined;
    });
    assert.ok(explained.length > 10);
    const unknown = explained.filter(({ recorded }) => recorded.ends !== "person" || recorded.todo === null);
    assert.deepEqual(unknown, []);
    await server.stop();
    await built.remove();
  });

  test("answers 503 where no views are kept, and warns that it shows all to any client where its address is not a loopback one", async () => {
    const { server, get } = await start({ STATUS_LISTEN: "0.0.0.0:0", VIEWS: "list" });
    const answer = await get();
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /keeps no views/);
    const [warning] = server.log.filter(({ reason }) => reason === "status-listen");
    assert.equal(warning?.level, "warn");
    assert.match(warning?.msg ?? "", /any client that reaches it sees names and messages/);
    await server.stop();
  });

  test("ends with 1 where its port is taken, and with 2 for a value that is no address", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = other.address();
    const taken = typeof address === "object" ? `127.0.0.1:${address?.port}` : "";
    const startWith = (value: string) => launchServer({ kubeconfig, namespace, settings: { STATUS_LISTEN: value } });
    const [refused, wrong] = [startWith(taken), startWith("somewhere")];
    assert.equal((await refused.ended).code, 1);
    assert.match(refused.printed().stderr, /STATUS_LISTEN: 127\.0\.0\.1:\d+ cannot be listened on: .*EADDRINUSE/);
    assert.equal((await wrong.ended).code, 2);
    assert.match(wrong.printed().stderr, /STATUS_LISTEN is "somewhere"; write an IP address/);
    other.close();
  });

  test("opens no port where FUNCTION names no function that shows the status, and says so", async () => {
    const settings = { STATUS_LISTEN: "127.0.0.1:0", FUNCTION: "keep-ledgers" };
    const server = await Server.start({ kubeconfig, namespace, settings });
    await eventually("a warning", 10_000, async () =>
      server.log.some(({ level, msg }) => level === "warn" && msg.startsWith("STATUS_LISTEN is set"))
        ? true
        : undefined,
    );
    await server.stop();
  });
});
