/**
 * A revision that never becomes ready, for each possible cause, with another pod lost as well: `kubectl rollout undo` heals the
 * group, and takes no ready pod.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { neverReadyAfterMs } from "../../functions/advance-zone-rollout/repair.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, groupPods, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { isReady, type Pod, UNREADY } from "../controlplane/podstatus.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const namespace = "night";
const everyMs = 500;

interface Row {
  readonly cause: string;
  /** What the new revision's template has in place of what {@link good} has. */
  readonly template: Template;
  /** What the Event says of the pod. */
  readonly pattern: RegExp;
}

interface Template {
  readonly metadata?: { readonly annotations: Readonly<Record<string, string | null>> };
  readonly spec: Readonly<Record<string, unknown>>;
}

const app = (image: string) => ({ containers: [{ name: "app", image }] });
const readyAfter = "100";
const good: Template = {
  metadata: { annotations: { [ANNOTATIONS.waitingReason]: null, [ANNOTATIONS.readyAfterMs]: readyAfter } },
  spec: { ...app("app:1"), initContainers: null, nodeName: "node-1", nodeSelector: null },
};

const waiting = (reason: string, spec: object = app("app:broken")): Template => ({
  metadata: { annotations: { [ANNOTATIONS.waitingReason]: reason } },
  spec: { ...app("app:2"), ...spec },
});
const brokenInit = { initContainers: [{ name: "init", image: "init:broken" }] };
const silent = { annotations: { [ANNOTATIONS.readyAfterMs]: "86400000" } };
const pending = /was Pending for \d+ s on/;

const stuck = [
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
].map(
  (reason): Row => ({ cause: reason, template: waiting(reason), pattern: new RegExp(`was stuck in ${reason} on`) }),
);

const rows: readonly Row[] = [
  ...stuck,
  {
    cause: "an init container in CrashLoopBackOff",
    template: waiting("CrashLoopBackOff", brokenInit),
    pattern: /was stuck in CrashLoopBackOff on/,
  },
  { cause: "a ConfigMap that is not there", template: waiting("ContainerCreating"), pattern: pending },
  { cause: "ErrImageNeverPull", template: waiting("ErrImageNeverPull"), pattern: pending },
  { cause: "ImageInspectError", template: waiting("ImageInspectError"), pattern: pending },
  { cause: "an init container that does not end", template: waiting(UNREADY, brokenInit), pattern: pending },
  {
    cause: "no node that fits",
    template: { spec: { ...app("app:2"), nodeName: null, nodeSelector: { place: "nowhere" } } },
    pattern: pending,
  },
  { cause: "a kubelet that says nothing", template: { metadata: silent, spec: app("app:2") }, pattern: pending },
  {
    cause: "a readiness probe that fails",
    template: waiting(UNREADY),
    pattern: new RegExp(`was never ready in ${neverReadyAfterMs / 1000 / 10}\\d s on`),
  },
];

const places = [
  { place: "another zone", zone: "zone-b", guard: "zones-down" },
  { place: "the same zone", zone: "zone-a", guard: "zone-settling" },
] as const;

const nights = rows.flatMap((row, index) =>
  places.map((place) => ({ ...row, ...place, name: `night-${index}-${place.guard}` })),
);
type Night = (typeof nights)[number];

describe("a revision that never becomes ready", { skip: await skipWithoutControlPlane(), concurrency: true }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let server: Server;
  const groups = new Map<string, FixtureGroup>();

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-night" });
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: readyAfter };
    for (const { name } of nights) {
      groups.set(name, await createGroup(controlPlane, { name, namespace, zones: 2, pods: 2, podAnnotations }));
    }
    for (const group of groups.values()) await waitForGroupReady(controlPlane, group);
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
    await eventually("ledgers older than ten seconds", 60_000, async () => {
      const { items } = await api.get<{ items: { metadata: { creationTimestamp: string } }[] }>(leases());
      const isOld = items.every(({ metadata }) => Date.now() - Date.parse(metadata.creationTimestamp) > 12_000);
      return items.length >= nights.length && isOld ? true : undefined;
    });
  });

  after(async () => {
    await server?.stop();
    await api?.close();
    await controlPlane?.stop();
  });

  const groupOf = ({ name }: Night) => groups.get(name) as FixtureGroup;
  const leases = (name = "") => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;

  async function write(night: Night, template: Template, names = groupOf(night).statefulSets): Promise<void> {
    for (const name of names) {
      await api.patch(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`, { spec: { template } });
    }
  }

  /** Resolves when the pods of these names are of another revision than `before`, and are not ready. */
  async function waitForBroken(night: Night, before: Revisions, names: readonly string[]): Promise<void> {
    await eventually(
      `${names.join(", ")} not ready at the new revision`,
      60_000,
      async () => {
        const pods = await groupPods(controlPlane, groupOf(night));
        const isBroken = (pod: Pod) => revisionOf(pod) !== before[pod.metadata.name] && !isReady(pod);
        return names.every((name) => pods.some((pod) => pod.metadata.name === name && isBroken(pod))) || undefined;
      },
      everyMs,
    );
  }

  async function waitForGuard(night: Night, guard: string): Promise<void> {
    await eventually(
      `the ledger of ${night.name} naming ${guard}`,
      60_000,
      async () => {
        const { metadata } = await api.get<{ metadata: Pod["metadata"] }>(leases(`sluice-${night.name}`));
        const verdicts = JSON.parse(metadata.annotations?.["sluice.dev/verdicts"] ?? "{}");
        return verdicts["advance-zone-rollout"]?.guard === guard || undefined;
      },
      everyMs,
    );
  }

  for (const night of nights) {
    test(`rollout undo heals ${night.cause}, with a pod lost in ${night.place}, and takes no pod that is ready`, async () => {
      const group = groupOf(night);
      const before = revisionsOf(await groupPods(controlPlane, group));
      await write(night, night.template);
      const taken = `${group.name}-zone-a-0`;
      await waitForBroken(night, before, [taken]);
      const lost = `${group.name}-${night.zone}-1`;
      await api.delete(`/api/v1/namespaces/${namespace}/pods/${lost}`, { gracePeriodSeconds: 0 });
      await waitForBroken(night, before, [taken, lost]);
      await waitForGuard(night, night.guard);
      const ready = (await groupPods(controlPlane, group)).filter(isReady).map(({ metadata }) => metadata.uid);
      assert.equal(ready.length, 2);

      // The last zone first: when the first one is whole, a rollout may take ready pods of a zone whose template is still new.
      await write(night, good, groupOf(night).statefulSets.toReversed());
      const timeoutMs = (night.pattern === pending ? 0 : neverReadyAfterMs) + 60_000;
      await waitForGroupReady(controlPlane, group, { updated: true, timeoutMs, everyMs });
      const healed = await groupPods(controlPlane, group);
      assert.deepEqual(revisionsOf(healed), before);
      const still = healed.map(({ metadata }) => metadata.uid).filter((uid) => ready.includes(uid));
      assert.deepEqual(still.sort(), ready.sort());
      await waitForGuard(night, "done");
      // The Event is written beside the ledger, and may come after it.
      await eventually(`an Event of ${night.name} with ${night.pattern}`, 30_000, async () =>
        (await repairs(night)).some((message) => night.pattern.test(message)) ? true : undefined,
      );
    });
  }

  async function repairs({ name }: Night): Promise<string[]> {
    const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=reason=BrokenPodReplaced`;
    const { items } = await api.get<{ items: { message: string; involvedObject: { name: string } }[] }>(path);
    return items
      .filter(({ involvedObject }) => involvedObject.name.startsWith(`${name}-`))
      .map(({ message }) => message);
  }
});

/** By the pod's name. */
type Revisions = Readonly<Record<string, string>>;

function revisionOf({ metadata }: Pod): string {
  return metadata.labels?.["controller-revision-hash"] ?? "";
}

function revisionsOf(pods: readonly Pod[]): Revisions {
  return Object.fromEntries(pods.map((pod) => [pod.metadata.name, revisionOf(pod)]));
}
