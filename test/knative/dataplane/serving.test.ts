/** Knative Serving's queue-proxy in front of a function, configured with rendered Services. It needs no API server. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { eventually } from "../../controlplane/api.ts";
import { freePort } from "../../controlplane/ports.ts";
import { canConfine } from "./confinement.ts";
import {
  type DataPlane,
  findDataPlane,
  type KnativeService,
  type QueueProxy,
  skipWithoutDataPlane,
  startQueueProxy,
} from "./programs.ts";
import { Sink } from "./sink.ts";

const rendered = join(import.meta.dirname, "../../../knative/base/functions/advance-zone-rollout.yaml");

/** The Service of a function in a namespace, but for some settings. */
async function serviceWith(settings: object): Promise<KnativeService> {
  const objects = loadAll(await readFile(rendered, "utf8")) as (KnativeService & { readonly kind: string })[];
  const service = objects.find(({ kind }) => kind === "Service");
  assert.ok(service !== undefined);
  const { metadata, spec } = service;
  const template = { ...spec.template, spec: { ...spec.template.spec, ...settings } };
  return { metadata: { ...metadata, namespace: "mimir" }, spec: { ...spec, template } };
}

suite("queue-proxy", { skip: await skipWithoutDataPlane() }, () => {
  let dataPlane: DataPlane;
  let logs: string;
  const proxies: QueueProxy[] = [];
  const sinks: Sink[] = [];
  before(async () => {
    dataPlane = await findDataPlane(() => {});
    logs = await mkdtemp(join(tmpdir(), "sluice-queue-proxy-"));
  });
  after(async () => {
    await Promise.all(proxies.map((proxy) => proxy.kill()));
    await Promise.all(sinks.map((sink) => sink.close()));
    await rm(logs, { recursive: true });
  });

  /** A queue-proxy, and where its function is to listen. */
  const start = async (settings: object, userPort: number): Promise<QueueProxy> => {
    const proxy = await startQueueProxy({ dataPlane, logs }, { service: await serviceWith(settings), userPort });
    proxies.push(proxy);
    return proxy;
  };
  const serve = async (port?: number): Promise<Sink> => {
    const sink = await Sink.start(port);
    sinks.push(sink);
    return sink;
  };
  const post = async (proxy: QueueProxy): Promise<number> =>
    (await fetch(proxy.url, { method: "POST", body: "{}" })).status;

  test("it says whether the function is ready, by the probe of its Service", async () => {
    const port = await freePort();
    const proxy = await start({}, port);
    const asked = proxy.isReady();
    const sink = await serve(port);
    const statuses = [503, 503];
    sink.answer = () => statuses.shift() ?? 200;
    assert.equal(await asked, true);
    assert.equal(statuses.length, 0);
    assert.ok(sink.received.every(({ path }) => path === "/readyz"));
    await proxy.kill();
  });

  test("it holds requests above containerConcurrency back until others are done", async () => {
    const sink = await serve();
    const proxy = await start({ containerConcurrency: 2 }, sink.port);
    const waiting: (() => void)[] = [];
    sink.answer = () => new Promise((resolve) => waiting.push(() => resolve(204)));
    const statuses = [1, 2, 3, 4, 5].map(() => post(proxy));
    for (let taken = 2; taken <= 5; taken++) {
      await eventually("requests taken", 30_000, async () => (waiting.length >= taken ? true : undefined));
      assert.equal(waiting.length, taken, "more than two at once");
      waiting[taken - 2]?.();
    }
    waiting[4]?.();
    assert.deepEqual(await Promise.all(statuses), [204, 204, 204, 204, 204]);
    await proxy.kill();
  });

  test("it answers 504 after timeoutSeconds", async () => {
    const sink = await serve();
    const proxy = await start({ timeoutSeconds: 1 }, sink.port);
    sink.answer = () => new Promise(() => {});
    assert.equal(await post(proxy), 504);
    await proxy.kill();
  });

  test("after SIGTERM it is not ready any more, and finishes what it has taken and what still comes", async () => {
    const sink = await serve();
    const proxy = await start({}, sink.port);
    let finish = (_: number): void => {};
    sink.answer = ({ path }) => (path === "/" ? new Promise((resolve) => (finish = resolve)) : 200);
    assert.equal(await proxy.isReady(), true);
    const taken = post(proxy);
    await sink.until("the request", ({ path }) => path === "/");
    const stopped = proxy.stop();
    await eventually("not ready", 30_000, async () => ((await proxy.isReady()) ? undefined : true));
    finish(204);
    assert.equal(await taken, 204);
    sink.answer = () => 204;
    assert.equal(await post(proxy), 204);
    await proxy.kill();
    await stopped;
  });

  test("two of them run at once where the machine gives networks, and elsewhere the second says what port it lacks", async () => {
    const sink = await serve();
    const one = await start({}, sink.port);
    const [other] = await Promise.allSettled([start({}, sink.port)]);
    assert.equal(await post(one), 204);
    if (await canConfine(dataPlane)) {
      assert.equal(other.status, "fulfilled");
      assert.equal(await post(other.value), 204);
    } else {
      assert.equal(other.status, "rejected");
      assert.match(String(other.reason), /queue listens on port 8012 and 8022 and 9090, which is taken here/);
    }
  });
});
