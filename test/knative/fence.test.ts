/** The fence as `npm run render` writes it: that it says what the definitions say, and of every right to write something. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { annotationTable, reviewKey } from "../../functions/shared/annotations/table.ts";
import { splitPath, withKey } from "../../functions/shared/certificates/review-key.ts";
import { isStandard } from "../../functions/shared/contract/definition.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions, table } from "../../triggers/table.ts";

interface Rendered {
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });
const objects = [...rendered].flatMap(([file, text]) =>
  file.endsWith("/kustomization.yaml") || /^(fencing|restart)/.test(file)
    ? []
    : (loadAll(text) as unknown as Rendered[]),
);
/** What acts where a namespace ends has a policy of its own. */
const inside = groupFunctions.filter(isStandard).filter(({ keyedBy }) => keyedBy !== "namespaces");
const standard = table.filter(isStandard);
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
      ...standard.flatMap(({ needs }) => paths("sluice", needs)),
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
      standard.flatMap(({ needs }) => needs.filter(({ changes }) => changes?.length)).map(({ resource }) => resource),
    );
    for (const { resources: some } of rights)
      assert.ok(
        some.every((one) => fenced.has(one) || one === "events"),
        some.join(),
      );
  });
});

suite("the fence around paths of webhooks", () => {
  const text = rendered.get("fence/fence.yaml") ?? "";
  const [, pattern = ""] = /p\.matches\('([^']+)'\)/.exec(text) ?? [];
  const key = "0123456789abcdef".repeat(4);
  const path = "/admission/pod-eviction";

  test("the policy takes exactly that for a key which the functions take for one, and cuts it off at the same place", () => {
    const [, length = ""] = /p\.substring\((\d+)\)/.exec(text) ?? [];
    assert.ok(pattern.startsWith("^") && splitPath(withKey(path, key)).key === key);
    const paths = [path, `/${key}`, `/${key}/`, `/${key}//a`, `/${key.slice(1)}${path}`, `/0${key}${path}`];
    const others = [`/${"g".repeat(64)}${path}`, `/${key.toUpperCase()}${path}`, `${path}/${key}`, `/x/${key}${path}`];
    for (const one of [...paths, ...others, `/${key}${path}`, `/${key}/${key}/a`]) {
      const isKeyed = new RegExp(pattern).test(one);
      assert.equal(isKeyed, splitPath(one).key !== undefined, one);
      if (isKeyed) assert.equal(one.substring(Number(length)), splitPath(one).path);
    }
  });

  test("each configuration of the manifests asks for keys, and the policy asks for the same label before and after", () => {
    const configurations = loadAll(rendered.get("webhooks/webhooks.yaml") ?? "") as unknown as {
      kind: string;
      metadata: { labels: Record<string, string> };
    }[];
    const labels = configurations
      .filter(({ kind }) => kind.endsWith("WebhookConfiguration"))
      .map(({ metadata }) => metadata.labels[reviewKey.key]);
    assert.deepEqual(labels, ["true", "true", "true", "true"]);
    const asked = text
      .replace(/\s+/g, " ")
      .matchAll(/variables\.labels(Before|After)\['sluice.dev\/review-key'\] == 'true'/g);
    assert.deepEqual(
      [...asked].map(([, when]) => when),
      ["Before", "After"],
    );
  });
});

/** As the API server reads it. */
interface Policy {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly matchConstraints: { readonly resourceRules: readonly { readonly resources: readonly string[] }[] };
    readonly matchConditions: readonly { readonly name: string; readonly expression: string }[];
    readonly variables: readonly { readonly name: string; readonly expression: string }[];
  };
}

const texts = (expression = "") => [...expression.matchAll(/'(sluice\.dev\/[^']+)'/g)].map(([, text = ""]) => text);
function policyIn(files: ReadonlyMap<string, string>, name: string): Policy["spec"] {
  const policies = loadAll(files.get("fence/guard.yaml") ?? "") as unknown as Policy[];
  const policy = policies.find(({ kind, metadata }) => !/Binding$/.test(kind) && metadata.name === name);
  assert.ok(policy !== undefined, name);
  return policy.spec;
}

suite("the rendered guard", () => {
  const ours = annotationTable.filter(({ key }) => key.startsWith("sluice.dev/"));
  const keys = (some: readonly { readonly key: string }[]) => sorted(some.map(({ key }) => key));
  const conditionOf = ({ matchConditions }: Policy["spec"]) =>
    texts(matchConditions.find(({ name }) => name === "a-word-of-ours-differs")?.expression);
  const variableOf = ({ variables }: Policy["spec"], name: string) =>
    sorted(texts(variables.find((one) => one.name === name)?.expression));

  test("a word that its meaning calls written by us is one that Sluice alone writes, and no other word is", () => {
    for (const entry of annotationTable)
      assert.equal("isWrittenByUs" in entry, /written by us$/.test(entry.meaning), `${entry.key}: ${entry.meaning}`);
  });

  test("the guard decides each annotation and label of ours on volume claims and on owners, as the table of annotations has them", () => {
    const claims = policyIn(rendered, "sluice-guard-claims.default");
    const onClaims = ours.filter(({ on }) => on === "PersistentVolumeClaim" || on === "StatefulSet");
    const annotations = onClaims.filter(({ kind, on }) => kind === "annotation" || on === "PersistentVolumeClaim");
    const finalizers = ["sluice.dev/volume-hold", "sluice.dev/volume-protection"];
    assert.deepEqual(sorted(conditionOf(claims)), sorted([...keys(annotations), ...finalizers]));
    const written = annotations.filter(
      (one) => /written by us$/.test(one.meaning) && one.on === "PersistentVolumeClaim",
    );
    const marks = ["sluice.dev/protected", "sluice.dev/suspended"];
    assert.deepEqual(sorted([...variableOf(claims, "writtenByUs"), ...variableOf(claims, "ofOurs")]), keys(written));
    assert.deepEqual(variableOf(claims, "ofOurs"), marks);
    assert.deepEqual(variableOf(claims, "saving"), ["sluice.dev/hold", "sluice.dev/recover", "sluice.dev/retain-pv"]);
    assert.deepEqual(variableOf(claims, "keeping"), finalizers);
    const owners = policyIn(rendered, "sluice-guard-owners.default");
    const ofOwners = ours.filter(({ on, meaning }) => on === "Owner" && /written by us$/.test(meaning));
    const labelling = ["sluice.dev/skip-deadline", "sluice.dev/skip-label", "sluice.dev/stop-all"];
    assert.deepEqual(variableOf(owners, "ofOurs"), keys(ofOwners));
    assert.deepEqual(variableOf(owners, "labelling"), labelling);
    assert.deepEqual(sorted(conditionOf(owners)), sorted([...keys(ofOwners), ...labelling]));
  });

  test("the guard decides each kind whose pods Sluice labels, the owners that users list as well, and no kind that is mirrored", () => {
    const kinds = {
      mirrored: [{ plural: "things", group: "example.com" }],
      owners: [{ plural: "brokers", group: "example.com" }],
      machines: [],
    };
    const kindsIn = (files: ReadonlyMap<string, string>) =>
      sorted(
        policyIn(files, "sluice-guard-owners.default").matchConstraints.resourceRules.flatMap((rule) => rule.resources),
      );
    assert.deepEqual(kindsIn(rendered), ["foundationdbclusters", "rabbitmqclusters"]);
    const listed = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds });
    assert.deepEqual(kindsIn(listed), ["brokers", "foundationdbclusters", "rabbitmqclusters"]);
  });

  test("every account that the fence holds is one that the guard leaves out, and no other account is", () => {
    const accountsIn = (file: string) =>
      new Set(
        [...(rendered.get(file) ?? "").matchAll(/split\(':'\)\[3\]\s+in\s+(\[[^\]]+\])/g)].map(([, list = ""]) =>
          list.replace(/\s+/g, " "),
        ),
      );
    assert.equal(accountsIn("fence/guard.yaml").size, 1);
    assert.deepEqual(accountsIn("fence/guard.yaml"), accountsIn("fence/fence.yaml"));
  });
});
