/** The fence as `npm run render` writes it: that it says what the definitions say, and of every right to write something. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, table } from "../../triggers/table.ts";

interface Rendered {
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions });
const objects = [...rendered].flatMap(([file, text]) =>
  file.endsWith("/kustomization.yaml") ? [] : (loadAll(text) as unknown as Rendered[]),
);
/** What acts where a namespace ends has a policy of its own. */
const inside = groupFunctions.filter(({ keyedBy }) => keyedBy !== "namespaces");
const sorted = (texts: readonly string[]) => [...new Set(texts)].sort();

suite("the rendered fence", () => {
  test("a function that may write objects and does not say what of them is not rendered, but refused", () => {
    const needs = keepLedgers.needs.map(({ changes: _, ...need }) => need);
    const functions = { groupFunctions: [{ ...keepLedgers, needs }], admissionFunctions: [], cronFunctions: [] };
    assert.throws(() => renderManifests(functions), /keep-ledgers may write leases, .*name the paths in `changes`/);
    const quoted = [{ group: "", resource: "configmaps", verbs: ["patch"], changes: ["data['a']"] }];
    assert.throws(() => renderManifests({ ...functions, groupFunctions: [{ ...keepLedgers, needs: quoted }] }), /data/);
  });

  test("the fence lets each account change what its functions say that they change, and nothing besides", () => {
    const paths = (name: string, needs: (typeof table)[number]["needs"]) =>
      needs.flatMap(({ group, resource, changes = [] }) => {
        const [plural, ...subresource] = resource.split("/");
        const key = [group === "" ? plural : `${plural}.${group}`, ...subresource].join("/");
        return changes.map((path) => `${name}: ${key}: ${path}`);
      });
    const wanted = [
      ...table.flatMap(({ needs }) => paths("sluice", needs)),
      ...admissionFunctions.flatMap(({ needs }) => paths("sluice-admission", needs)),
      ...[...inside, ...cronFunctions].flatMap(({ name, needs }) => paths(name, needs)),
    ];
    const tables = [
      ...(rendered.get("fence/fence.yaml") ?? "").matchAll(/name: table\n\s+expression: \|-\n([\s\S]*?)\n {4}- name/g),
    ];
    const written = tables.flatMap(([, text = ""]) =>
      [...text.matchAll(/'([^']+)': \{\n([^}]*)\}/g)].flatMap(([, account, rows = ""]) =>
        [...rows.matchAll(/'([^']+)': \[(.*)\]/g)].flatMap(([, resource, list = ""]) =>
          [...list.matchAll(/'([^']+)'/g)].map(([, path]) => `${account}: ${resource}: ${path}`),
        ),
      ),
    );
    assert.ok(wanted.length > 50);
    assert.deepEqual(sorted(written), sorted(wanted));
    const rights = objects
      .flatMap((object) => object.rules ?? [])
      .filter(({ verbs }) => /patch|create|update/.test(verbs.join()));
    const fenced = new Set(
      table.flatMap(({ needs }) => needs.filter(({ changes }) => changes?.length)).map(({ resource }) => resource),
    );
    for (const { resources: some } of rights)
      assert.ok(
        some.every((one) => fenced.has(one) || one === "events"),
        some.join(),
      );
  });
});
