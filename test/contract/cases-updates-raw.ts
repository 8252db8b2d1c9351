/**
 * Updates that users make and no function does: dry runs, whole objects, and other users. For clusters that speak HTTP.
 */
import assert from "node:assert/strict";
import { type Case, type EvictionFixture, readStatefulSet } from "./fixture.ts";
import { ours, type UpdateStage, withUpdates } from "./with-updates.ts";
import { mutating, patching, validating } from "./with-webhooks.ts";

type Stage = UpdateStage<EvictionFixture>;

const addTheirs = [{ op: "add", path: "/metadata/annotations/theirs", value: "1" }];

export const rawUpdateCases: readonly Case<EvictionFixture>[] = [
  withUpdates(
    "a dry run of an update, and of a scale, is reviewed as a dry run, answered as if it were done, and not done",
    async (stage) => {
      await stage.register(mutating, "first");
      await stage.register(validating, "second");
      const before = await stage.statefulSet();
      stage.webhooks.answer = ({ url, request }) =>
        url.startsWith("/first") && request.object.kind !== "Scale" ? patching(addTheirs) : { allowed: true };
      const patch = { ...ours, spec: { replicas: 1 } };
      const answer = await stage.fixture.send({ method: "PATCH", path: pathOf(stage, "?dryRun=All"), body: patch });
      const { metadata, spec } = answer.body;
      assert.deepEqual([answer.code, metadata.annotations, spec?.replicas], [200, { ours: "1", theirs: "1" }, 1]);
      const scale = await putOrPatchScale(stage, "PATCH", { spec: { replicas: 1 } }, "?dryRun=All");
      assert.deepEqual([scale.code, scale.body.kind, scale.body.spec?.replicas], [200, "Scale", 1]);
      const reviews = stage.take();
      assert.equal(reviews.length, 4);
      for (const { request } of reviews) {
        assert.equal(request.dryRun, true);
        assert.deepEqual((request.options as { dryRun: unknown }).dryRun, ["All"]);
      }
      stage.webhooks.answer = () => ({ allowed: false, status: { code: 403, message: "no" } });
      assert.equal((await putOrPatchScale(stage, "PATCH", { spec: { replicas: 1 } }, "?dryRun=All")).code, 403);
      assert.equal(
        (await stage.fixture.send({ method: "PATCH", path: pathOf(stage, "?dryRun=No"), body: {} })).code,
        422,
      );
      assert.equal((await readStatefulSet(stage.fixture)).metadata.resourceVersion, before.metadata.resourceVersion);
    },
  ),
  withUpdates("a PUT of an object is reviewed as an UPDATE, and keeps what only a controller writes", async (stage) => {
    await stage.register(mutating, "first");
    const before = await stage.statefulSet();
    const { metadata, status, ...rest } = before;
    const body = { ...rest, metadata: { ...metadata, ...ours.metadata }, status: { ...status, replicas: 7 } };
    const { code, body: after } = await stage.fixture.send({ method: "PUT", path: pathOf(stage), body });
    assert.deepEqual([code, after.metadata.annotations], [200, { ours: "1" }]);
    assert.equal((await readStatefulSet(stage.fixture)).status.replicas, 0);
    const [{ request } = assert.fail("no webhook was asked"), ...more] = stage.take();
    assert.deepEqual([request.operation, more], ["UPDATE", []]);
    assert.equal((request.options as { kind: string }).kind, "UpdateOptions");
    assert.equal(request.oldObject?.metadata.annotations?.ours, undefined);
    const late = await stage.fixture.send({ method: "PUT", path: pathOf(stage), body });
    assert.deepEqual([late.code, (late.body as { reason?: string }).reason], [409, "Conflict"]);
    const other = { ...body, metadata: { ...body.metadata, name: "other" } };
    assert.equal((await stage.fixture.send({ method: "PUT", path: pathOf(stage), body: other })).code, 400);
  }),
  withUpdates("a PUT of a scale is reviewed as an UPDATE, and again if its object has changed", async (stage) => {
    const { cluster } = stage.fixture;
    await stage.register(mutating, "first", ["statefulsets/scale"]);
    await stage.statefulSet();
    let asked = 0;
    stage.webhooks.answer = async () => {
      asked++;
      if (asked === 1) await cluster.patch("statefulsets", stage.key, { metadata: { annotations: { theirs: "1" } } });
      return { allowed: true };
    };
    const scale = (replicas: number, more: object = {}) => {
      const metadata = { name: "set", namespace: stage.key.namespace, ...more };
      return { apiVersion: "autoscaling/v1", kind: "Scale", metadata, spec: { replicas } };
    };
    const { code, body } = await putOrPatchScale(stage, "PUT", scale(1));
    assert.deepEqual([code, body.spec?.replicas], [200, 1]);
    const reviews = stage.take();
    assert.equal(reviews.length, 2);
    for (const { request } of reviews) {
      assert.deepEqual([request.operation, request.object.spec], ["UPDATE", { replicas: 1 }]);
      assert.equal((request.options as { kind: string }).kind, "UpdateOptions");
    }
    const { metadata, spec } = await readStatefulSet(stage.fixture);
    assert.deepEqual([metadata.annotations?.theirs, spec.replicas], ["1", 1]);
    assert.equal((await putOrPatchScale(stage, "PUT", scale(2, { resourceVersion: "1" }))).code, 409);
    assert.equal((await putOrPatchScale(stage, "PUT", scale(2, { name: "other" }))).code, 400);
    assert.equal((await readStatefulSet(stage.fixture)).spec.replicas, 1);
  }),
  withUpdates("a review names the user and the user's groups", async (stage) => {
    await stage.register(mutating, "first");
    await stage.statefulSet();
    const headers = { "Impersonate-User": "visitor", "Impersonate-Group": "system:masters" };
    const request = { method: "PATCH", path: pathOf(stage), body: ours, headers } as const;
    const { code, body } = await stage.fixture.send(request);
    assert.equal(code, 200);
    // The API server might first review the scale of the object that it remembers, and then that of the current one.
    await stage.remembered("statefulsets", body.metadata.resourceVersion);
    assert.equal((await putOrPatchScale(stage, "PATCH", { spec: { replicas: 0 } }, "", headers)).code, 200);
    const users = stage.take().map((review) => review.request.userInfo);
    const user = { username: "visitor", groups: ["system:masters", "system:authenticated"] };
    assert.deepEqual(users, [user, user]);
  }),
];

function pathOf({ key: { namespace, name } }: Stage, rest = ""): string {
  return `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}${rest}`;
}

function putOrPatchScale(
  stage: Stage,
  method: "PUT" | "PATCH",
  body: object,
  query = "",
  headers: Readonly<Record<string, string>> = {},
) {
  return stage.fixture.send({ method, path: pathOf(stage, `/scale${query}`), body, headers });
}
