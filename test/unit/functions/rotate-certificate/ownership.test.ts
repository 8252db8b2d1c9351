/** After writing a configuration, Sluice owns no field of it, so that clients which apply manifests get no conflict. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { patchAll } from "../../../../functions/rotate-certificate/configurations.ts";
import type { Configuration } from "../../../../functions/rotate-certificate/decide.ts";
import type { Rotation } from "../../../../functions/rotate-certificate/rotation.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";

interface Written {
  readonly metadata?: { readonly resourceVersion?: string; readonly managedFields?: readonly unknown[] };
  readonly webhooks?: unknown;
}

const helm = { manager: "helm", operation: "Apply" };
const sluice = { manager: "sluice", operation: "Update" };

/** The patches of one configuration. `answers`: codes of those that give up the ownership, in order. */
async function patchesOf(answers: readonly (200 | 403 | 404 | 409 | 500)[]) {
  const left = [...answers];
  const patches: Written[] = [];
  const results: string[] = [];
  let version = 1;
  const patch = async (_resource: string, _key: unknown, written: Written) => {
    patches.push(written);
    const code =
      written.metadata?.managedFields === undefined ? 200 : (left.shift() ?? assert.fail("one try too many"));
    if (code !== 200)
      throw new ClusterError({
        code,
        reason: "",
        message: `${code}`,
        verb: "patch",
        resource: "",
        retryAfterMs: undefined,
      });
    version++;
    return {
      metadata: { name: "pod-eviction-mimir", uid: "u", resourceVersion: `${version}`, managedFields: [helm, sluice] },
    };
  };
  const object = {
    metadata: { name: "pod-eviction-mimir", uid: "u", resourceVersion: "1" },
    webhooks: [{ name: "a", clientConfig: {} }],
  };
  const configuration = { resource: "mutatingwebhookconfigurations", object, pathKeys: [] } as unknown as Configuration;
  const reporter = { act: ({ result }: { result: string }) => results.push(result) };
  const rotation = {
    context: { cluster: { patch, monotonicMs: () => 0 }, reporter, mode: "act" },
    settings: { secret: { namespace: "mimir", name: "secret" } },
    memory: { refusals: new Map() },
  } as unknown as Rotation;
  const step = {
    kind: "patch",
    configurations: [configuration],
    authorities: ["a"],
    reviewKey: undefined,
    because: "",
  } as const;
  const error = await patchAll(rotation, undefined, step).then(
    () => undefined,
    (reason: Error) => reason,
  );
  return { patches, results, error };
}

const given = (resourceVersion: string) => ({ metadata: { uid: "u", resourceVersion, managedFields: [helm] } });

test("rotate-certificate removes its own entry from the managed fields that its write returned, under the version of that write", async () => {
  const { patches, results } = await patchesOf([200]);
  assert.deepEqual(patches.slice(1), [given("2")]);
  assert.deepEqual(results, ["done"]);
});

test("if another client writes in between, rotate-certificate reads the configuration by a patch without a change, and tries again", async () => {
  const { patches, results } = await patchesOf([409, 409, 200]);
  assert.deepEqual(patches.slice(1), [given("2"), {}, given("3"), {}, given("4")]);
  assert.deepEqual(results, ["done"]);
});

test("rotate-certificate stops to try if others keep writing, and after a refusal or a deletion the bundle stays written", async () => {
  assert.equal((await patchesOf([409, 409, 409, 409, 409])).error, undefined);
  for (const code of [403, 404] as const) {
    const { patches, results, error } = await patchesOf([code]);
    assert.deepEqual([patches.length, results, error], [2, ["done"], undefined], `${code}`);
  }
});

test("after an error of the API server the run fails, so that it comes again", async () => {
  assert.match(`${(await patchesOf([500])).error}`, /500/);
});
