/**
 * Two processes of the function sleep, each with a request on its way, while a third one ends their restart. Then the requests
 * arrive, and the processes go on.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { Server } from "../support/server.ts";
import { LateProxy, type LateRequest } from "./late-proxy.ts";
import { allocation, marker, slowMs } from "./nodes.ts";
import { asDatabase, namespace } from "./pods.ts";
import { skip, stage } from "./stage.ts";

const name = "db-zone-a-0";
const usersOwn = { [allocation]: "new_primaries" };

suite("processes of the function that sleep in a restart of a real OpenSearch", { skip }, () => {
  let ports: readonly [number, number] | undefined;
  const sleepers: Server[] = [];
  const proxies: LateProxy[] = [];

  const on = stage(async () => {
    ports = [await freePort(), await freePort()];
    const [managerPort, databasePort] = ports;
    const annotations = () => ({ ...asDatabase(databasePort), "sluice.dev/restart-manager": `http://:${managerPort}` });
    return { zones: 1, annotations, startsFunction: false };
  });

  after(async () => {
    for (const sleeper of sleepers) await sleeper.kill();
    for (const proxy of proxies) await proxy.close();
    if (ports) releasePorts(...ports);
  });

  /** From the moment on at which the request is on its way the process sleeps that was started last. */
  async function keepOne(port: number, to: number, isIt: LateRequest["isIt"]): Promise<LateProxy> {
    const { nodes } = on.pods;
    const host = nodes.addressOf(name);
    const late = { isIt, onKept: () => sleepers.at(-1)?.setPaused(true) };
    const proxy = await LateProxy.start({ url: `http://${host}:${to}` }, { host, port }, late);
    proxies.push(proxy);
    return proxy;
  }

  test("a late stop is refused and the fresh process runs on, and a late hold is undone to what the user had", async () => {
    const { pods } = on;
    const { nodes } = pods;
    const served = pods.servedOf(name);
    const [managerPort = 0, databasePort = 0] = ports ?? [];
    assert.equal(await nodes.set(name, usersOwn), 200);
    await pods.mark(name, "schedule");
    const { controlPlane, functionSettings: settings } = pods;
    const start = async () => sleepers.push(await Server.start({ ...controlPlane, namespace, settings }));
    const hold = await keepOne(databasePort, nodes.port, ({ method }) => method === "PUT");
    const stop = await keepOne(managerPort, served.port, ({ path }) => path === "/es/stop");
    await start();
    await hold.kept;
    await start();
    await stop.kept;
    assert.deepEqual(await pods.journal(), [`start ${name}`]);
    await pods.startFunction();
    await pods.restarted([name]);
    const ended = await pods.journal();
    assert.deepEqual(ended, [`start ${name}`, `stopping ${name}`, `stop ${name}`, `start ${name}`]);
    assert.deepEqual(await nodes.settingsAt(name), usersOwn);
    const { lastEpoch, processId } = await served.status();

    assert.equal(await stop.deliver(), 409);
    assert.equal(await hold.deliver(), 200);
    assert.match((await nodes.settingsAt(name))[marker] ?? "", /previous=new_primaries$/);
    for (const sleeper of sleepers) sleeper.setPaused(false);
    await eventually("allocation as the user had it", slowMs, async () => {
      return (await nodes.settingsAt(name))[marker] === undefined ? true : undefined;
    });
    assert.deepEqual(await nodes.settingsAt(name), usersOwn);
    const now = await served.status();
    assert.deepEqual([now.lastEpoch, now.processId, now.state], [lastEpoch, processId, "started"]);
    assert.deepEqual(await pods.journal(), ended);
    assert.equal(await pods.claims(), "");
  });
});
