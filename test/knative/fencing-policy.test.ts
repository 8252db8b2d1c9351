/** The policies of fencing as `npm run render` writes them: that they say what the definition and the agents say. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { agentEntries } from "../../functions/shared/annotations/fencing.ts";
import { pathsOf } from "../../functions/shared/annotations/paths.ts";
import type { Need } from "../../functions/shared/contract/definition.ts";
import { agentAccount, fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { fencingPoliciesOf } from "../../knative/render/fencing/policy.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";

const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });
const folders = ["fencing-policy", "fencing-node-deletion"];
const needs = groupFunctions.find(({ name }) => name === functionAccount)?.needs ?? [];

interface Policy {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly variables: readonly { readonly name: string; readonly expression: string }[] };
}

function policiesIn(folder: string): readonly Policy[] {
  const objects = loadAll(rendered.get(`${folder}/policies.yaml`) ?? "") as unknown as readonly Policy[];
  return objects.filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
}

/** The paths of each row of the table, as `account: resource`. */
function rowsIn(folder: string): ReadonlyMap<string, readonly string[]> {
  const tables = policiesIn(folder).map(({ spec }) => spec.variables.find(({ name }) => name === "table")?.expression);
  const rows = tables.flatMap((table = "") =>
    [...table.matchAll(/'([^']+)': \{\n([^}]*)\}/g)].flatMap(([, account, lines = ""]) =>
      [...lines.matchAll(/'([^']+)': \[(.*)\]/g)].map(([, resource, list = ""]): [string, readonly string[]] => [
        `${account}: ${resource}`,
        [...list.matchAll(/'([^']+)'/g)].map(([, path = ""]) => path),
      ]),
    ),
  );
  return new Map(rows);
}

const changesOf = (isSuch: (need: Need) => boolean) =>
  [...new Set(needs.filter(isSuch).flatMap(({ changes = [] }) => changes))].sort();

suite("the rendered policies of fencing", () => {
  test("the functions may change what their definition says, and agents what they write into their own Leases", () => {
    for (const folder of folders) {
      const rows = rowsIn(folder);
      const ofLeases = ["an agent", "a fence", "the slots"].flatMap(
        (sort) => rows.get(`${functionAccount}: leases.coordination.k8s.io of ${sort}`) ?? [],
      );
      const own = changesOf(({ resource, scope }) => resource === "leases" && scope === undefined);
      assert.deepEqual([...new Set(ofLeases)].sort(), own);
      assert.deepEqual(
        rows.get(`${functionAccount}: leases.coordination.k8s.io of a group`),
        changesOf(({ resource, scope }) => resource === "leases" && scope === "every-namespace"),
      );
      assert.deepEqual(
        rows.get(`${agentAccount}: leases.coordination.k8s.io of an agent`),
        [...pathsOf(...agentEntries), "spec.holderIdentity"].sort(),
      );
      assert.equal(rows.size, 6);
    }
    const ofNodes = changesOf(({ resource }) => resource === "nodes");
    assert.deepEqual(rowsIn("fencing-policy").get(`${functionAccount}: nodes`), ofNodes);
    const deleting = rowsIn("fencing-node-deletion").get(`${functionAccount}: nodes`) ?? [];
    assert.ok(ofNodes.every((path) => deleting.includes(path)) && deleting.includes("metadata.labels[*]"));
  });

  test("a change of a Lease that no sort of Lease takes is not rendered, but refused", () => {
    const more: Need = {
      group: "coordination.k8s.io",
      resource: "leases",
      verbs: ["patch"],
      changes: ["spec.renewTime"],
    };
    assert.throws(() => fencingPoliciesOf([...needs, more]), /no Lease of fencing takes spec\.renewTime/);
  });

  test("the namespace stands in one place of each policy, which says whose writes it is about", () => {
    for (const folder of folders) {
      const policies = policiesIn(folder);
      assert.deepEqual(
        policies.map(({ metadata }) => metadata.name),
        ["sluice-fencing-leases", "sluice-fencing-nodes"],
      );
      for (const policy of policies) {
        const places = JSON.stringify(policy.spec).match(new RegExp(fencingNamespace, "g")) ?? [];
        assert.equal(places.length, 1, policy.metadata.name);
      }
    }
  });
});
