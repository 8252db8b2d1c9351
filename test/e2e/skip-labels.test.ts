/** Owners that are deleted on a real API server: their pods are labelled before our finalizer goes, whatever happens (M1). */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { markSkipLabel } from "../../functions/mark-skip-label/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { runKubectl } from "../support/drain.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { finalizer, Witness, witnessed } from "./skip-label-witness.ts";

interface Cluster {
  readonly metadata: {
    readonly uid: string;
    readonly finalizers?: readonly string[];
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
}

const apiVersion = "rabbitmq.com/v1beta1";
const clustersIn = (namespace: string) => `/apis/${apiVersion}/namespaces/${namespace}/rabbitmqclusters`;

describe("owners are let go on a real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  const ends: (() => Promise<unknown>)[] = [];

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-skip-labels" });
    for (const folder of ["../../knative/base/crds", "../fixtures/crds"])
      await runKubectl(controlPlane, "apply", "-k", join(import.meta.dirname, folder));
    await runKubectl(controlPlane, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
  });

  after(async () => {
    for (const end of ends) await end();
    await api?.close();
    await controlPlane?.stop();
  });

  async function serve(namespace: string, settings: Readonly<Record<string, string>> = {}): Promise<Server> {
    const { kubeconfig } = controlPlane;
    const server = await Server.start({
      kubeconfig,
      namespace,
      settings: { FUNCTION: markSkipLabel.name, SKIP_LABEL_WAIT: "0", ...settings },
    });
    ends.push(() => server.kill());
    return server;
  }

  async function watch(namespace: string): Promise<Witness> {
    const witness = await Witness.start(controlPlane, namespace);
    ends.push(() => witness.stop());
    return witness;
  }

  /** RabbitmqClusters with a StatefulSet of ready pods each, by the names of the owners. */
  async function clusters(namespace: string, names: readonly string[], pods = 3, goneAfterMs = 0): Promise<void> {
    const made: FixtureGroup[] = [];
    for (const name of names) {
      const podAnnotations = { [ANNOTATIONS.goneAfterMs]: String(goneAfterMs) };
      const group = await createGroup(controlPlane, { name, namespace, zones: 1, pods, podAnnotations });
      const metadata = { name, finalizers: [witnessed], annotations: { "sluice.dev/skip-label": "skipPreStopChecks" } };
      const owner = { apiVersion, kind: "RabbitmqCluster", metadata, spec: {} };
      const { uid } = (await api.post<Cluster>(clustersIn(namespace), owner)).metadata;
      const reference = { apiVersion, kind: "RabbitmqCluster", name, uid, controller: true, blockOwnerDeletion: true };
      const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}-zone-a`;
      await api.patch(path, { metadata: { ownerReferences: [reference] } });
      made.push(group);
    }
    for (const group of made) await waitForGroupReady(controlPlane, group);
  }

  const find = (namespace: string, name: string) =>
    api.get<Cluster>(`${clustersIn(namespace)}/${name}`).catch(() => undefined);

  const kept = (namespace: string, name: string) =>
    eventually(`${name} held`, 30_000, async () =>
      (await find(namespace, name))?.metadata.finalizers?.includes(finalizer) ? true : undefined,
    );

  const remove = (namespace: string, name: string, propagationPolicy = "Background") =>
    api.delete(`${clustersIn(namespace)}/${name}`, { propagationPolicy });

  /** Removes the witness's finalizer, and what is left. */
  const dismiss = (namespace: string, name: string) =>
    api.patch(`${clustersIn(namespace)}/${name}`, { metadata: { finalizers: null } }).catch(() => undefined);

  test("an owner keeps our finalizer from the start, and loses it when each of its pods has had the label for the wait", async (context) => {
    const namespace = "let-go";
    await clusters(namespace, ["orders"]);
    const witness = await watch(namespace);
    await serve(namespace, { SKIP_LABEL_WAIT: "2s" });
    await kept(namespace, "orders");
    const startedMs = Date.now();
    await remove(namespace, "orders");
    await eventually("the owner let go", 30_000, async () => (witness.isReleased("orders") ? true : undefined));
    const tookMs = Date.now() - startedMs;
    assert.deepEqual(witness.unlabelledAtRelease("orders", "orders-zone-a"), []);
    const labelledMs = Math.max(...witness.podsOf("orders-zone-a").map((pod) => pod.labelledMs)) - startedMs;
    assert.ok(tookMs >= 1_000, `${tookMs} ms: the clock of an API server is known to a second`);
    context.diagnostic(
      `the last label ${labelledMs} ms after the deletion, let go after ${tookMs} ms with a wait of 2 s`,
    );
    await dismiss(namespace, "orders");
  });

  test("if a process is killed at any step of a deletion, another one completes it, and M1 holds", async (context) => {
    const namespace = "killed";
    const names = Array.from({ length: 10 }, (_, index) => `owner-${index}`);
    await clusters(namespace, names, 2);
    const witness = await watch(namespace);
    let server = await serve(namespace);
    for (const name of names) await kept(namespace, name);
    const steps = new Set<string>();
    for (const [index, name] of names.entries()) {
      await remove(namespace, name);
      // From before the first label until after the release: what a deletion takes is some 100 ms here.
      await delay(index * 20);
      await server.kill();
      const labelled = witness.podsOf(`${name}-zone-a`).filter((pod) => pod.labelledAt < Number.POSITIVE_INFINITY);
      steps.add(`${labelled.length} labels${witness.isReleased(name) ? ", let go" : ""}`);
      server = await serve(namespace);
      await eventually(`${name} let go`, 60_000, async () => (witness.isReleased(name) ? true : undefined));
      assert.deepEqual(witness.unlabelledAtRelease(name, `${name}-zone-a`), [], name);
    }
    context.diagnostic(`killed with ${[...steps].join("; ")}`);
    for (const name of names) await dismiss(namespace, name);
  });

  test("the pods of a namespace that is deleted are labelled before Kubernetes takes them, five seconds later", async (context) => {
    const namespace = "doomed";
    await clusters(namespace, ["one", "two"]);
    const witness = await watch(namespace);
    const server = await serve(namespace);
    await kept(namespace, "one");
    await kept(namespace, "two");
    const startedMs = Date.now();
    await api.delete(`/api/v1/namespaces/${namespace}`);
    const pods = () => [...witness.podsOf("one-zone-a"), ...witness.podsOf("two-zone-a")];
    await eventually("the pods taken", 60_000, async () =>
      pods().every(({ terminatingAt }) => terminatingAt < Number.POSITIVE_INFINITY) ? true : undefined,
    );
    for (const { name, labelledAt, terminatingAt } of pods()) assert.ok(labelledAt < terminatingAt, name);
    const last = Math.max(...pods().map(({ labelledMs }) => labelledMs)) - startedMs;
    const first = Math.min(...pods().map(({ terminatingMs }) => terminatingMs)) - startedMs;
    context.diagnostic(
      `${pods().length} pods: the last label after ${last} ms, the first of them taken after ${first} ms`,
    );
    await eventually("the owners let go", 60_000, async () =>
      witness.isReleased("one") && witness.isReleased("two") ? true : undefined,
    );
    for (const name of ["one", "two"]) await dismiss(namespace, name);
    await eventually("the namespace gone", 60_000, async () =>
      (await api.send("GET", `/api/v1/namespaces/${namespace}`)).statusCode === 404 ? true : undefined,
    );
    const complaints = server.log.filter(({ level }) => level === "warn" || level === "error");
    assert.deepEqual(
      complaints.map(({ msg }) => msg),
      [],
      "that no Event can be sent there is expected",
    );
  });

  test("in a deletion in the foreground each pod has the label, or an Event reports that it can no longer get one", async (context) => {
    const namespace = "foreground";
    // As with a stop hook: a pod that is gone at once needs no label.
    await clusters(namespace, ["orders"], 3, 5_000);
    const witness = await watch(namespace);
    await serve(namespace);
    await kept(namespace, "orders");
    await remove(namespace, "orders", "Foreground");
    await eventually("the owner let go", 60_000, async () => (witness.isReleased("orders") ? true : undefined));
    const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=reason=MarkerUnreachable`;
    const inTime = witness.podsOf("orders-zone-a").filter((pod) => pod.labelledAt < pod.terminatingAt);
    const late = witness.podsOf("orders-zone-a").filter((pod) => !inTime.includes(pod));
    await eventually("an Event for each pod that was late", 30_000, async () => {
      const { items } = await api.get<{ items: { message: string }[] }>(path);
      return late.every(({ name }) => items.some(({ message }) => message.startsWith(`${name} `))) ? true : undefined;
    });
    context.diagnostic(`${inTime.length} of 3 pods had the label before they were taken`);
    await dismiss(namespace, "orders");
  });

  test("label-refused: while a policy of the cluster refuses the label the owner stays, and gives the reason; then it goes", async () => {
    const namespace = "refused";
    await clusters(namespace, ["orders"]);
    const witness = await watch(namespace);
    const lift = await refuseLabel(api, namespace, "orders-zone-a-1");
    await serve(namespace);
    await kept(namespace, "orders");
    await remove(namespace, "orders");
    const status = await eventually("the status", 30_000, async () => {
      const text = (await find(namespace, "orders"))?.metadata.annotations?.["sluice.dev/skip-status"];
      return text?.includes("label-refused") ? (JSON.parse(text) as { sentence: string }) : undefined;
    });
    assert.match(status.sentence, /^orders-zone-a-1 has no label: .* 422: .*not this pod/);
    assert.equal(witness.isReleased("orders"), false);
    await lift();
    await eventually("the owner let go", 60_000, async () => (witness.isReleased("orders") ? true : undefined));
    assert.deepEqual(witness.unlabelledAtRelease("orders", "orders-zone-a"), []);
    await dismiss(namespace, "orders");
  });
});

/** Lets the API server refuse the label on one pod; resolves, when it does, to a function that ends that. */
async function refuseLabel(api: Api, namespace: string, pod: string): Promise<() => Promise<void>> {
  const [kind, admission] = ["ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"];
  const name = `no-label-${namespace}`;
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods"] };
  const labelled = "has(object.metadata.labels) && 'skipPreStopChecks' in object.metadata.labels";
  const expression = `request.namespace != '${namespace}' || request.name != '${pod}' || !(${labelled})`;
  const spec = {
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression, message: "not this pod", reason: "Invalid" }],
  };
  await api.post(`/apis/${admission}/validatingadmissionpolicies`, {
    apiVersion: admission,
    kind,
    metadata: { name },
    spec,
  });
  const bindings = `/apis/${admission}/validatingadmissionpolicybindings`;
  const binding = { policyName: name, validationActions: ["Deny"] };
  await api.post(bindings, { apiVersion: admission, kind: `${kind}Binding`, metadata: { name }, spec: binding });
  const body = { metadata: { labels: { skipPreStopChecks: "true" } } };
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}?dryRun=All`;
  await eventually("the policy in force", 30_000, async () => {
    const { statusCode } = await api.send("PATCH", path, body, "application/merge-patch+json");
    return statusCode === 422 ? true : undefined;
  });
  return async () => {
    await api.delete(`${bindings}/${name}`);
  };
}
