/** The programs of Knative Eventing against a real API server, configured with sources and Triggers as they are rendered. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { Api, eventually } from "../../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../../controlplane/fixtures.ts";
import { kubeconfigOf } from "../../support/installed.ts";
import { type Built, Kubectl } from "../../support/kubectl.ts";
import { skipWithoutControlPlane } from "../../support/scene.ts";
import { channelConditions } from "./preparation.ts";
import {
  type ApiServerSource,
  findDataPlane,
  type Program,
  prepareEventing,
  type Surroundings,
  skipWithoutDataPlane,
  startAdapter,
  startDispatcher,
  startFilter,
  startIngress,
  startPing,
} from "./programs.ts";
import { Sink } from "./sink.ts";

const skip = (await skipWithoutControlPlane()) || (await skipWithoutDataPlane());
const namespace = "mimir";

interface Stored {
  readonly metadata: { readonly name: string; readonly uid: string; readonly generation: number };
}

suite("Knative Eventing's programs on the real API server", { skip }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let kubectl: Kubectl;
  let surroundings: Surroundings;
  let sink: Sink;
  const running: Program[] = [];

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-dataplane" });
    kubectl = await Kubectl.open(controlPlane);
    sink = await Sink.start();
    const dataPlane = await findDataPlane(() => {});
    await prepareEventing(kubectl);
    await kubectl.run("create", "namespace", namespace);
    const { directory, kubeconfig } = controlPlane;
    surroundings = { dataPlane, kubeconfig, logs: join(directory, "logs") };
  });
  after(async () => {
    await Promise.all(running.map((program) => program.kill()));
    await sink?.close();
    await api?.close();
    await controlPlane?.stop();
    await kubectl?.close();
  });

  const run = async <P extends Program>(starting: Promise<P>): Promise<P> => {
    const program = await starting;
    running.push(program);
    return program;
  };
  const rendered = async (overlay: string, kind: string, name: string): Promise<Built> => {
    const objects = await kubectl.buildIn(namespace, overlay);
    const object = objects.find((one) => one.kind === kind && one.metadata.name === name);
    assert.ok(object !== undefined, `${overlay} has no ${kind} ${name}`);
    return object;
  };
  /** Stores an object and has it say that it is ready, as Knative's controllers do. */
  const store = async (path: string, object: object, conditions: readonly string[], status: object = {}) => {
    const stored = await api.post<Stored>(path, object);
    const { name, generation: observedGeneration } = stored.metadata;
    const ready = ["Ready", ...conditions].map((type) => ({ type, status: "True" }));
    const settled = { ...status, observedGeneration, conditions: ready };
    await api.request("PATCH", `${path}/${name}/status`, { status: settled }, "application/merge-patch+json");
    return stored;
  };

  test("the adapter sends a reference to what has changed, and nothing of what changed while it was dead", async () => {
    const objects = await kubectl.buildIn(namespace, "direct");
    const account = "advance-zone-rollout-source";
    await kubectl.apply(
      objects.filter(({ metadata: { name }, apiVersion }) => name === account && !/knative/.test(apiVersion)),
    );
    const source = (await rendered("direct", "ApiServerSource", "advance-zone-rollout-statefulsets")) as Built &
      ApiServerSource;
    const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
    const group = await createGroup(controlPlane, { name: "ingester", namespace, pods: 0 });
    await waitForGroupReady(controlPlane, group);
    const touch = (zone: string) => {
      const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/ingester-zone-${zone}`;
      return api.patch(path, { metadata: { annotations: { touched: crypto.randomUUID() } } });
    };
    const start = () => run(startAdapter({ ...surroundings, kubeconfig }, { source, sink: `${sink.url}/adapter` }));
    const ofZone = (zone: string) =>
      sink.until(`an event of zone ${zone}`, ({ headers }) => headers["ce-name"] === `ingester-zone-${zone}`);

    const adapter = await start();
    await touch("a");
    const { headers, body } = await ofZone("a");
    assert.equal(headers["ce-type"], "dev.knative.apiserver.ref.update");
    assert.equal(headers["ce-kind"], "StatefulSet");
    const reference = { kind: "StatefulSet", namespace, name: "ingester-zone-a", apiVersion: "apps/v1" };
    assert.deepEqual(JSON.parse(body), reference);

    assert.equal((await adapter.kill()).signal, "SIGKILL");
    await touch("b");
    await start();
    await touch("c");
    await ofZone("c");
    const names = sink.received.filter(({ path }) => path === "/adapter").map((event) => event.headers["ce-name"]);
    assert.deepEqual(names, ["ingester-zone-a", "ingester-zone-c"]);
  });

  test("mtping sends the ticks of a PingSource, with its data", async () => {
    const source = await rendered("direct", "PingSource", "advance-zone-rollout");
    const { spec, ...named } = source as Built & { readonly spec: object };
    const everySecond = { ...named, spec: { ...spec, schedule: "* * * * * *" } };
    const path = `/apis/sources.knative.dev/v1/namespaces/${namespace}/pingsources`;
    const conditions = ["SinkProvided", "Deployed", "OIDCIdentityCreated"];
    await store(path, everySecond, conditions, { sinkUri: `${sink.url}/ping` });
    const mtping = await run(startPing(surroundings));
    const { headers, body } = await sink.until("a tick", (received) => received.path === "/ping");
    assert.equal(headers["ce-type"], "dev.knative.sources.ping");
    assert.equal(headers["ce-source"], `/apis/v1/namespaces/${namespace}/pingsources/advance-zone-rollout`);
    assert.equal(body, "{}");
    await mtping.kill();
  });

  test("mtping keeps a schedule of seconds, as it is rendered", async () => {
    const source = await rendered("direct", "PingSource", "release-prepared-due");
    const path = `/apis/sources.knative.dev/v1/namespaces/${namespace}/pingsources`;
    const conditions = ["SinkProvided", "Deployed", "OIDCIdentityCreated"];
    await store(path, source, conditions, { sinkUri: `${sink.url}/due` });
    const mtping = await run(startPing(surroundings));
    const ticks = () => sink.received.filter((received) => received.path === "/due");
    await eventually("three ticks", 35_000, async () => (ticks().length >= 3 ? true : undefined));
    const [first] = ticks();
    assert.equal(first?.headers["ce-source"], `/apis/v1/namespaces/${namespace}/pingsources/release-prepared-due`);
    const times = ticks().map(({ headers }) => Date.parse(String(headers["ce-time"])));
    for (const [index, ms] of times.slice(1).entries()) {
      const betweenMs = ms - (times[index] ?? 0);
      assert.ok(betweenMs > 8_500 && betweenMs < 11_500, `${betweenMs} ms between two ticks`);
    }
    await mtping.kill();
  });

  test("a Broker delivers what a Trigger's filter lets through, and again after a 503", async () => {
    const starting = [run(startIngress(surroundings)), run(startFilter(surroundings))] as const;
    const [ingress, filter] = await Promise.all(starting);
    const dispatcher = await run(startDispatcher(surroundings, { reaches: [ingress.port, filter.port] }));
    const trigger = await rendered("broker", "Trigger", "advance-zone-rollout");
    const broker = await rendered("broker", "Broker", "sluice");
    const eventing = `/apis/eventing.knative.dev/v1/namespaces/${namespace}`;
    const channel = `${broker.metadata.name}-kne-trigger`;
    const address = `${ingress.url}/${namespace}/${broker.metadata.name}`;
    await store(`${eventing}/brokers`, broker, [], {
      address: { url: address },
      annotations: { "knative.dev/channelAddress": `${dispatcher.url}/${namespace}/${channel}` },
    });
    const { uid } = (await store(`${eventing}/triggers`, trigger, [], { subscriberUri: `${sink.url}/triggered` }))
      .metadata;
    const subscription = {
      uid,
      generation: 1,
      subscriberUri: `${filter.url}/triggers/${namespace}/${trigger.metadata.name}/${uid}`,
      delivery: { retry: 3, backoffPolicy: "linear", backoffDelay: "PT0.1S" },
    };
    await store(
      `/apis/messaging.knative.dev/v1/namespaces/${namespace}/inmemorychannels`,
      {
        apiVersion: "messaging.knative.dev/v1",
        kind: "InMemoryChannel",
        metadata: {
          name: channel,
          annotations: { "messaging.knative.dev/subscribable": "v1", "eventing.knative.dev/scope": "cluster" },
        },
        spec: { subscribers: [subscription] },
      },
      channelConditions,
      { address: { url: `http://${channel}.${namespace}.svc` } },
    );
    const post = async (id: string, kind: string, label = ""): Promise<number> => {
      const headers = {
        "ce-specversion": "1.0",
        "ce-id": id,
        "ce-source": "/test",
        "ce-type": "dev.knative.apiserver.ref.update",
        "ce-kind": kind,
        ...(label === "" ? {} : { "ce-selectedby": label }),
      };
      return (
        await fetch(address, {
          method: "POST",
          headers: { ...headers, "content-type": "application/json" },
          body: "{}",
        })
      ).status;
    };
    // Until all of them have seen the objects above.
    await eventually("an event taken", 30_000, async () => ((await post("0", "Secret")) === 202 ? true : undefined));
    const statuses = [503];
    sink.answer = () => statuses.shift() ?? 204;
    assert.equal(await post("1", "ConfigMap"), 202);
    assert.equal(await post("2", "StatefulSet", "rollout-group"), 202);
    // What another function's source has selected.
    assert.equal(await post("3", "StatefulSet", "sluice.dev/rebalance-queues"), 202);
    assert.equal(await post("4", "Pod", "statefulset.kubernetes.io/pod-name"), 202);
    await sink.until("the last event", ({ headers }) => headers["ce-id"] === "4");
    const ids = sink.received.filter(({ path }) => path === "/triggered").map(({ headers }) => headers["ce-id"]);
    assert.deepEqual(ids, ["2", "2", "4"]);
  });

  test("a program that ends before it is ready says why", async () => {
    const kubeconfig = await kubectl.file("nothing.kubeconfig", "{}");
    await assert.rejects(
      startFilter({ ...surroundings, kubeconfig }),
      /filter did not start \(ended, exit code 1\)[\s\S]*kubeconfig/,
    );
  });
});
