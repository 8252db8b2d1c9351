/**
 * Reviews whose objects have another namespace or name than the review: each server answers 400, and no function
 * decides by them.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { allow } from "../../../../functions/shared/admission/answers.ts";
import { admissionFunctions } from "../../../../triggers/table.ts";
import { createTestApp } from "../../../support/app.ts";

interface Sent {
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly name?: string;
  readonly namespace?: string;
}

function openServers() {
  const decided: string[] = [];
  const admissions = admissionFunctions.map((definition) => ({
    definition,
    handler: {
      async review({ namespace, name }: { readonly namespace: string; readonly name: string }) {
        decided.push(`${namespace}/${name}`);
        return allow("allowed");
      },
    },
  }));
  const { app } = createTestApp({ admissions });
  const post = async (path: string, request: Sent) => {
    const body = JSON.stringify({
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: { uid: "u-1", operation: "UPDATE", namespace: "mimir", name: "db-a", ...request },
    });
    const answer = await app.request(path, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.equal(answer.status, 200);
    const { response } = (await answer.json()) as { response: { allowed: boolean; status?: Record<string, unknown> } };
    return response;
  };
  return { post, decided };
}

const metadataOf = (metadata: unknown) => ({ apiVersion: "v1", kind: "Any", metadata });
const same = metadataOf({ namespace: "mimir", name: "db-a" });

const contradictions: readonly (readonly [string, Sent, RegExp])[] = [
  [
    "the object's namespace",
    { object: metadataOf({ namespace: "loki", name: "db-a" }) },
    /namespace "mimir", .+ "loki"/,
  ],
  ["the object's name", { object: metadataOf({ name: "db-b" }) }, /metadata\.name of its object is "db-b"/],
  [
    "the old object's namespace",
    { object: same, oldObject: metadataOf({ namespace: "loki", name: "db-a" }) },
    /metadata\.namespace of its oldObject is "loki"/,
  ],
  ["the old object's name", { object: same, oldObject: metadataOf({ name: "x" }) }, /metadata\.name of its oldObject/],
];

for (const { name, paths } of admissionFunctions) {
  for (const path of paths) {
    test(`invalid-request: ${path} answers a review that contradicts itself with 400 and a message`, async () => {
      for (const [what, request, message] of contradictions) {
        const { post, decided } = openServers();
        const { allowed, status } = await post(path, request);
        assert.deepEqual([allowed, status?.code, status?.reason], [false, 400, "BadRequest"], what);
        assert.match(String(status?.message), message, what);
        assert.deepEqual(decided, [], what);
      }
      const readme = await readFile(new URL(`../../../../functions/${name}/README.md`, import.meta.url), "utf8");
      assert.ok(readme.includes("`invalid-request`"));
    });
  }
}

test("an object without a namespace or a name contradicts nothing, and the review's own values count", async () => {
  for (const request of [
    { object: metadataOf({}), oldObject: null },
    { object: metadataOf({ namespace: "", name: "" }) },
    { object: metadataOf({ generateName: "db-", namespace: "mimir" }), name: "" },
    { object: metadataOf({ generateName: "db-", name: "db-x7k2p", namespace: "mimir" }), name: undefined as never },
    { object: null, oldObject: same },
    { object: "nonsense", oldObject: { metadata: ["x"] } },
  ] satisfies Sent[]) {
    const { post, decided } = openServers();
    assert.equal((await post("/admission/zpdb-validation", request)).allowed, true, JSON.stringify(request));
    assert.equal(decided.length, 1);
  }
});
