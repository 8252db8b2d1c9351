/** A missing object is an answer, and any other refusal of the API server is an error. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { deleteIfThere, find, listIfServed } from "../../../../functions/shared/kubernetes/find.ts";
import { rejection } from "../../../support/rejection.ts";

const key = { namespace: "db", name: "db-0" };

/** A cluster that answers each call with this code. */
function refusing(code: number) {
  const answer = async () => {
    throw new ClusterError({ code, reason: "Refused", message: `HTTP ${code}`, verb: "any", resource: "any" });
  };
  return { get: answer, list: answer, delete: answer } as unknown as Parameters<typeof find>[0] &
    Parameters<typeof listIfServed>[0] &
    Parameters<typeof deleteIfThere>[0];
}

test("after a 404 there is no object, no list and nothing to delete", async () => {
  const cluster = refusing(404);
  assert.equal(await find(cluster, "pods", key), undefined);
  assert.deepEqual(await listIfServed(cluster, "rabbitmqclusters", "db"), []);
  await deleteIfThere(cluster, "pods", key, { uid: "u" });
});

test("no other refusal means that an object is gone", async () => {
  for (const code of [0, 403, 409, 410, 429, 500]) {
    const cluster = refusing(code);
    const calls = [
      () => find(cluster, "pods", key),
      () => listIfServed(cluster, "rabbitmqclusters", undefined),
      () => deleteIfThere(cluster, "pods", key, { uid: "u" }),
    ];
    for (const call of calls) assert.equal((await rejection(call())).code, code);
  }
});
