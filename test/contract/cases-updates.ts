/** Updates of objects and of their scales: webhooks see, change and refuse them, and see them again after a conflict. */
import assert from "node:assert/strict";
import { type ClusterError, resources, type ScaleObject } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import { type Case, eventually, readStatefulSet } from "./fixture.ts";
import type { Review } from "./webhook-server.ts";
import { ours, scaled, type UpdateStage, withUpdates } from "./with-updates.ts";
import { mutating, patching, validating } from "./with-webhooks.ts";

const seen: readonly Case[] = scaled.map((resource) =>
  withUpdates(
    `a patch of ${resource}, and of their scale, is shown to webhooks as an UPDATE with the old object`,
    async (stage) => {
      const { cluster, namespace } = stage.fixture;
      await stage.register(mutating, "first");
      await stage.register(validating, "second");
      await createScaled(stage, resource);
      const kind = { group: "apps", version: "v1", kind: resources[resource].kind };
      const asked = { group: "apps", version: "v1", resource };
      const common = { name: "set", namespace, operation: "UPDATE", dryRun: false };

      stage.webhooks.take();
      const { metadata } = await cluster.patch(resource, stage.key, ours);
      const uids = new Set<string>();
      const reviews = stage.take();
      for (const { request } of lastOfEach(reviews)) {
        const { uid, userInfo: _user, object, oldObject, options, ...rest } = request;
        const about = { kind, resource: asked, requestKind: kind, requestResource: asked };
        assert.deepEqual(rest, { ...about, ...common });
        assert.equal((options as { kind: string }).kind, "UpdateOptions");
        assert.deepEqual([object.metadata.uid, oldObject?.metadata.uid], [metadata.uid, metadata.uid]);
        assert.equal(oldObject?.metadata.annotations?.ours, undefined);
        uids.add(uid);
      }
      assert.equal(uids.size, 2);

      const scale = await cluster.patch(resource, stage.key, { spec: { replicas: 1 } }, { subresource: "scale" });
      assert.equal(scale.spec?.replicas, 1);
      const scales = stage.take();
      assert.ok(scales.every(({ request }) => request.subResource === "scale"));
      for (const { request } of lastOfEach(scales)) {
        const { uid: _uid, userInfo: _user, object, oldObject, options: _options, ...rest } = request;
        const scaleKind = { group: "autoscaling", version: "v1", kind: "Scale" };
        const about = { kind: scaleKind, resource: asked, requestKind: scaleKind, requestResource: asked };
        assert.deepEqual(rest, { ...about, subResource: "scale", requestSubResource: "scale", ...common });
        assert.deepEqual([object.spec, oldObject?.spec], [{ replicas: 1 }, {}]);
        assert.deepEqual([object.metadata.uid, oldObject?.kind], [metadata.uid, "Scale"]);
      }
    },
  ),
);

const chosen: readonly Case[] = [
  withUpdates(
    "a webhook with an object selector is asked about objects that have the labels, or had them",
    async (stage) => {
      const { cluster } = stage.fixture;
      const objectSelector = { matchExpressions: [{ key: "probe", operator: "Exists" }] };
      await stage.register(mutating, "choosy", undefined, { objectSelector });
      await stage.statefulSet();
      const write = async (labels: object) => {
        await cluster.patch("statefulsets", stage.key, { metadata: { ...ours.metadata, labels } });
        return stage.take().length;
      };
      assert.equal(await write({}), 0);
      assert.ok((await write({ probe: "1" })) > 0);
      assert.ok((await write({ probe: null })) > 0);
      assert.equal(await write({ other: "1" }), 0);
      await patchScale(stage, { spec: { replicas: 0 } });
      assert.deepEqual(stage.take(), [], "a Scale has no labels");
    },
  ),
  withUpdates("the status is a subresource: a webhook for the object does not see it", async (stage) => {
    const { cluster } = stage.fixture;
    await stage.register(mutating, "object", ["deployments"]);
    await stage.register(mutating, "status", ["deployments/status"]);
    await createScaled(stage, "deployments");
    stage.webhooks.take();
    const body = { ...ours, status: { observedGeneration: 1 } };
    await cluster.patch("deployments", stage.key, body, { subresource: "status" });
    const reviews = stage.take();
    assert.ok(reviews.length > 0);
    for (const { url, request } of reviews) {
      assert.deepEqual([url.split("?")[0], request.subResource], ["/status", "status"]);
    }
  }),
  withUpdates("an update of a missing object is 404, and no webhook is asked", async (stage) => {
    await stage.register(mutating, "first");
    assert.equal((await rejection(stage.fixture.cluster.patch("statefulsets", stage.key, ours))).code, 404);
    assert.equal((await rejection(patchScale(stage, { spec: { replicas: 1 } }))).code, 404);
    assert.deepEqual(stage.take(), []);
  }),
  withUpdates("an update that changes nothing is shown to webhooks, and writes nothing", async (stage) => {
    await stage.register(validating, "first");
    const set = await stage.statefulSet();
    const { metadata } = await stage.fixture.cluster.patch("statefulsets", stage.key, { spec: { replicas: 0 } });
    assert.equal(metadata.resourceVersion, set.metadata.resourceVersion);
    assert.equal(stage.webhooks.take().length, 1);
  }),
];

const changed: readonly Case[] = [
  withUpdates("the next webhooks see what one webhook has changed, and it is stored", async (stage) => {
    const { cluster } = stage.fixture;
    const asked = ["/first", "/second", "/third"];
    await stage.register(mutating, "first");
    await stage.register(mutating, "second");
    await stage.register(validating, "third");
    await stage.statefulSet();
    const path = "/metadata/annotations/theirs";
    stage.webhooks.answer = ({ url, request }) => {
      if (!url.startsWith("/first")) return { allowed: true };
      if (request.object.kind !== "Scale") return patching([{ op: "add", path, value: "1" }]);
      return patching([{ op: "replace", path: "/spec/replicas", value: 1 }]);
    };
    const { metadata } = await cluster.patch("statefulsets", stage.key, ours);
    assert.equal(metadata.annotations?.theirs, "1");
    const ofObject = lastOfEach(stage.take(), asked);
    const theirs = ofObject.map(({ request }) => request.object.metadata.annotations?.theirs);
    assert.deepEqual(theirs, [undefined, "1", "1"]);
    const scale = await patchScale(stage, { spec: { replicas: 3 } });
    assert.equal(scale.spec?.replicas, 1);
    const replicas = lastOfEach(stage.take(), asked).map(({ request }) => request.object.spec?.replicas);
    assert.deepEqual(replicas, [3, 1, 1]);
    const { metadata: stored, spec } = await readStatefulSet(stage.fixture);
    assert.deepEqual([stored.annotations?.theirs, spec.replicas], ["1", 1]);
  }),
  withUpdates(
    "an update that a webhook refuses, or fails to answer, changes nothing, and the error says why",
    async (stage) => {
      const { cluster } = stage.fixture;
      const name = await stage.register(validating, "first");
      const before = await stage.statefulSet();
      const update = () => cluster.patch("statefulsets", stage.key, { ...ours, spec: { replicas: 1 } });
      const scale = () => patchScale(stage, { spec: { replicas: 1 } });
      const status = { code: 409, reason: "Conflict", message: "not now" };
      stage.webhooks.answer = () => ({ allowed: false, status });
      for (const write of [update, scale]) {
        const { code, reason, message } = await rejection(write());
        assert.deepEqual([code, reason], [409, "Conflict"]);
        assert.equal(message, `admission webhook "${name}" denied the request: not now`);
      }
      stage.webhooks.answer = () => "broken";
      for (const write of [update, scale]) {
        const { code, message } = await rejection(write());
        assert.deepEqual([code, message.includes(`failed calling webhook "${name}"`)], [500, true]);
      }
      assert.equal((await readStatefulSet(stage.fixture)).metadata.resourceVersion, before.metadata.resourceVersion);
    },
  ),
];

const again: readonly Case[] = [
  withUpdates(
    "an object that changes while a webhook is asked is reviewed again in its new state, under another uid, and both changes last",
    async (stage) => {
      await stage.register(mutating, "first");
      await stage.register(validating, "second");
      await stage.statefulSet();
      disturbOnce(stage);
      await stage.fixture.cluster.patch("statefulsets", stage.key, ours);
      const { metadata } = await readStatefulSet(stage.fixture);
      assert.deepEqual([metadata.annotations?.ours, metadata.annotations?.theirs], ["1", "1"]);
      const reviews = stage.take();
      assert.deepEqual(pathsOf(reviews), ["/first", "/second", "/first", "/second"]);
      assert.equal(new Set(reviews.map(({ request }) => request.uid)).size, 4);
      const old = reviews.map(({ request }) => request.oldObject?.metadata.annotations?.theirs);
      assert.deepEqual(old, [undefined, undefined, "1", "1"]);
      const now = reviews.map(({ request }) => request.object.metadata.annotations?.theirs);
      assert.deepEqual(now, [undefined, undefined, "1", "1"]);
    },
  ),
  withUpdates(
    "a scale whose object changes while a webhook is asked is reviewed again with the new scale",
    async (stage) => {
      await stage.register(mutating, "first", ["statefulsets/scale"]);
      await stage.register(validating, "second", ["statefulsets/scale"]);
      const set = await stage.statefulSet();
      disturbOnce(stage);
      const scale = await patchScale(stage, { spec: { replicas: 1 } });
      assert.equal(scale.spec?.replicas, 1);
      const { metadata, spec } = await readStatefulSet(stage.fixture);
      assert.deepEqual([metadata.annotations?.theirs, spec.replicas], ["1", 1]);
      const reviews = stage.take();
      assert.deepEqual(pathsOf(reviews), ["/first", "/second", "/first", "/second"]);
      assert.equal(new Set(reviews.map(({ request }) => request.uid)).size, 4);
      const [before, , after] = reviews.map(({ request }) => request.oldObject?.metadata.resourceVersion);
      assert.equal(before, set.metadata.resourceVersion);
      assert.notEqual(after, before);
    },
  ),
  withUpdates(
    "an update of an outdated resourceVersion is 409: mutating webhooks are asked again, validating ones are not",
    async (stage) => {
      const { cluster } = stage.fixture;
      await stage.register(mutating, "first");
      await stage.register(validating, "second");
      const { resourceVersion } = (await stage.statefulSet()).metadata;
      disturbOnce(stage);
      const body = { metadata: { ...ours.metadata, resourceVersion } };
      const error: ClusterError = await rejection(cluster.patch("statefulsets", stage.key, body));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.deepEqual(pathsOf(stage.take()), ["/first", "/second", "/first"]);

      await stage.remembered("statefulsets", (await readStatefulSet(stage.fixture)).metadata.resourceVersion);
      const old = await rejection(patchScale(stage, { metadata: { resourceVersion }, spec: { replicas: 1 } }));
      assert.equal(old.code, 409);
      assert.deepEqual(pathsOf(stage.take()), ["/first"]);
      const { metadata, spec } = await readStatefulSet(stage.fixture);
      assert.deepEqual([metadata.annotations?.ours, spec.replicas], [undefined, 0]);
    },
  ),
];

export const updateCases: readonly Case[] = [...seen, ...chosen, ...changed, ...again];

/** Another client changes the StatefulSet when a webhook is asked for the first time. */
function disturbOnce(stage: UpdateStage): void {
  let isDone = false;
  stage.webhooks.answer = async ({ request }) => {
    const isTheirs = request.object.kind !== "Scale" && request.object.metadata.annotations?.ours === undefined;
    if (!isDone && !isTheirs) {
      isDone = true;
      await stage.fixture.cluster.patch("statefulsets", stage.key, { metadata: { annotations: { theirs: "1" } } });
    }
    return { allowed: true };
  };
}

function patchScale({ fixture, key }: UpdateStage, body: object): Promise<ScaleObject> {
  return fixture.cluster.patch("statefulsets", key, body, { subresource: "scale" });
}

function pathsOf(reviews: readonly Review[]): (string | undefined)[] {
  return reviews.map(({ url }) => url.split("?")[0]);
}

/** Takes the last review of each webhook, because a webhook is asked again if a controller has written meanwhile. */
function lastOfEach(reviews: readonly Review[], asked = ["/first", "/second"]): readonly Review[] {
  const paths = new Set(pathsOf(reviews));
  assert.deepEqual([...paths], asked);
  return [...paths].map((path) => reviews.findLast(({ url }) => url.split("?")[0] === path) as Review);
}

/** An object without pods. A Deployment makes no ReplicaSet either. */
async function createScaled({ fixture, key }: UpdateStage, resource: (typeof scaled)[number]): Promise<void> {
  const labels = { app: "set" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "app", image: "app:1" }] } };
  const spec = { replicas: 0, selector: { matchLabels: labels }, template };
  const more = { statefulsets: { serviceName: "set" }, deployments: { paused: true }, replicasets: {} }[resource];
  const { cluster, namespace } = fixture;
  await cluster.create(resource, namespace, { metadata: { name: key.name }, spec: { ...spec, ...more } });
  await eventually(
    "the object",
    () => cluster.list(resource, { namespace }),
    ({ items }) => items.length === 1,
  );
}
