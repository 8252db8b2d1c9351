/** Secrets, webhook configurations and disruption budgets, which certificates and evictions need. */

import assert from "node:assert/strict";
import type {
  Metadata,
  PodDisruptionBudgetObject,
  SecretObject,
  WebhookConfigurationObject,
  ZoneBudgetObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import { collected, now } from "./cases-watches.ts";
import { type Case, createLease, type Fixture, revisionOf } from "./fixture.ts";

const otherUid = "00000000-0000-4000-8000-000000000000";
const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** The preconditions of a write (rule R3). */
function as({ uid, resourceVersion }: Metadata): { readonly uid: string; readonly resourceVersion: string } {
  return { uid, resourceVersion };
}

const secrets: readonly Case[] = [
  {
    name: "a Secret is created once, Opaque, and read back with its data in base64",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const created = await createSecret(fixture);
      assert.deepEqual([created.type, created.data], ["Opaque", { ca: base64("ca 1"), key: base64("key 1") }]);
      assert.deepEqual([created.metadata.namespace, created.metadata.generation], [namespace, undefined]);
      const got = await cluster.get("secrets", { namespace, name: "secret" });
      assert.deepEqual([got.type, got.data, as(got.metadata)], [created.type, created.data, as(created.metadata)]);
      const error = await rejection(createSecret(fixture));
      assert.deepEqual([error.code, error.reason], [409, "AlreadyExists"]);
      assert.equal(error.message, 'secrets "secret" already exists');
    },
  },
  {
    name: "R3: a conditional patch of a Secret changes the keys that it names; from an old revision it is 409",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const before = await createSecret(fixture);
      const key = { namespace, name: "secret" };
      const data = { ca: base64("ca 2"), cert: base64("cert 2") };
      const after = await cluster.patch("secrets", key, { metadata: as(before.metadata), data });
      assert.deepEqual(after.data, { ...data, key: base64("key 1") });
      assert.ok(revisionOf(after) > revisionOf(before));
      const late = { metadata: as(before.metadata), data: { ca: base64("ca 3") } };
      const error = await rejection(cluster.patch("secrets", key, late));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.equal((await cluster.get("secrets", key)).data?.ca, data.ca);
      const gone = await cluster.patch("secrets", key, { metadata: as(after.metadata), data: { cert: null } });
      assert.deepEqual(gone.data, { ca: data.ca, key: base64("key 1") });
    },
  },
  {
    name: "R9: a Secret is deleted by its uid and revision, not by another",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const { metadata } = await createSecret(fixture);
      const key = { namespace, name: "secret" };
      assert.equal((await rejection(cluster.delete("secrets", key, { uid: otherUid }))).code, 409);
      const { uid, resourceVersion } = metadata;
      const after = await cluster.patch("secrets", key, { data: { ca: base64("ca 2") } });
      assert.equal((await rejection(cluster.delete("secrets", key, { uid, resourceVersion }))).code, 409);
      await cluster.delete("secrets", key, { uid, resourceVersion: after.metadata.resourceVersion });
      const error = await rejection(cluster.get("secrets", key));
      assert.deepEqual([error.code, error.message], [404, 'secrets "secret" not found']);
    },
  },
  {
    name: "Secrets are listed and watched in their namespace",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "secrets");
      const { metadata } = await createSecret(fixture);
      const key = { namespace, name: "secret" };
      await cluster.patch("secrets", key, { data: { ca: base64("ca 2") } });
      assert.deepEqual(
        (await cluster.list("secrets", { namespace })).items.map(({ data }) => data?.ca),
        [base64("ca 2")],
      );
      await cluster.delete("secrets", key, { uid: metadata.uid });
      await createSecret(fixture, "last");
      const { events, objects } = await collected(fixture, "secrets", { namespace, resourceVersion }, "last");
      assert.deepEqual(events, ["ADDED secret", "MODIFIED secret", "DELETED secret"]);
      assert.equal(objects[1]?.data?.ca, base64("ca 2"));
    },
  },
];

type ConfigurationResource = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

const configurations: readonly Case[] = (
  ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] as const
).flatMap((resource): readonly Case[] => [
  {
    name: `${resource} belong to the whole cluster, and are stored with their defaults`,
    async run(fixture) {
      const { metadata, webhooks } = await createConfiguration(fixture, resource, ["first"]);
      assert.deepEqual([metadata.namespace, metadata.generation], [undefined, 1]);
      const [webhook] = webhooks ?? [];
      assert.deepEqual([webhook?.failurePolicy, webhook?.timeoutSeconds], ["Fail", 10]);
      assert.equal(webhook?.clientConfig.caBundle, base64(certificate("ca 1")));
      const name = configurationName(fixture);
      const got = await fixture.cluster.get(resource, { namespace: "", name });
      assert.deepEqual([as(got.metadata), got.webhooks], [as(metadata), webhooks]);
      const error = await rejection(fixture.cluster.get(resource, { namespace: "", name: `no-${name}` }));
      assert.equal(error.message, `${resource}.admissionregistration.k8s.io "no-${name}" not found`);
      assert.equal((await rejection(createConfiguration(fixture, resource, ["first"]))).code, 409);
    },
  },
  {
    name: `R3: a conditional merge patch of ${resource} replaces the whole list of webhooks`,
    async run(fixture) {
      const { cluster } = fixture;
      const key = { namespace: "", name: configurationName(fixture) };
      const before = await createConfiguration(fixture, resource, ["first", "second"]);
      const [first, second] = before.webhooks ?? [];
      const caBundle = base64(`${certificate("ca 1")}${certificate("ca 2")}`);
      const trusting = { ...first, clientConfig: { ...first?.clientConfig, caBundle } };
      const patch = { metadata: as(before.metadata), webhooks: [trusting, second] };
      const after = await cluster.patch(resource, key, patch);
      assert.deepEqual(after.webhooks, [trusting, second]);
      assert.equal(after.metadata.generation, 2);
      const late = await rejection(cluster.patch(resource, key, patch));
      assert.deepEqual([late.code, late.reason], [409, "Conflict"]);
      const foreign = { ...patch, metadata: { ...as(after.metadata), uid: otherUid } };
      assert.ok([409, 422].includes((await rejection(cluster.patch(resource, key, foreign))).code));
      const fewer = await cluster.patch(resource, key, { metadata: as(after.metadata), webhooks: [second] });
      assert.deepEqual(fewer.webhooks, [second]);
    },
  },
  {
    name: `a patch of ${resource} that changes nothing keeps the resourceVersion, even if it leaves out defaults`,
    async run(fixture) {
      const key = { namespace: "", name: configurationName(fixture) };
      const { metadata, webhooks } = await createConfiguration(fixture, resource, ["first"]);
      for (const same of [webhooks, [webhookNamed(fixture, "first")]]) {
        const after = await fixture.cluster.patch(resource, key, { metadata: as(metadata), webhooks: same });
        assert.deepEqual([as(after.metadata), after.webhooks], [as(metadata), webhooks]);
      }
      const labelled = await fixture.cluster.patch(resource, key, { metadata: { annotations: { a: "1" } } });
      assert.deepEqual([labelled.metadata.generation, labelled.webhooks], [1, webhooks]);
    },
  },
  {
    name: `${resource} are listed and watched by their labels`,
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const labelSelector = `contract=${namespace}`;
      const { resourceVersion } = await cluster.list(resource, { labelSelector });
      const created = await createConfiguration(fixture, resource, ["first"]);
      const key = { namespace: "", name: configurationName(fixture) };
      await cluster.patch(resource, key, { webhooks: [] });
      const { items } = await cluster.list(resource, { labelSelector });
      assert.deepEqual(
        items.map(({ metadata }) => [metadata.name, metadata.uid, metadata.generation]),
        [[key.name, created.metadata.uid, 2]],
      );
      await cluster.delete(resource, key, { uid: created.metadata.uid });
      const last = `last-${key.name}`;
      await createConfiguration(fixture, resource, [], last);
      const { events } = await collected(fixture, resource, { labelSelector, resourceVersion }, last);
      assert.deepEqual(events, [`ADDED ${key.name}`, `MODIFIED ${key.name}`, `DELETED ${key.name}`]);
    },
  },
]);

const budgets: readonly Case[] = [
  {
    name: "a PodDisruptionBudget begins with no disruption allowed; its status is a subresource, and its generation counts the spec",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "poddisruptionbudgets");
      const created = await createBudget(fixture, "budget");
      assert.equal(created.metadata.generation, 1);
      const { disruptionsAllowed, currentHealthy, desiredHealthy } = created.status ?? {};
      assert.deepEqual([disruptionsAllowed, currentHealthy, desiredHealthy], [0, 0, 0]);
      const key = { namespace, name: "budget" };
      const status = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };
      const written = await cluster.patch(
        "poddisruptionbudgets",
        key,
        { status: { ...status, observedGeneration: 1 }, spec: { minAvailable: 5 } },
        { subresource: "status" },
      );
      assert.deepEqual([written.metadata.generation, written.spec], [1, created.spec]);
      assert.equal(written.status?.observedGeneration, 1);
      const changed = await cluster.patch("poddisruptionbudgets", key, { spec: { minAvailable: 2 } });
      assert.equal(changed.metadata.generation, 2);
      await createBudget(fixture, "last");
      const received = await collected(fixture, "poddisruptionbudgets", { namespace, resourceVersion }, "last");
      assert.deepEqual([...new Set(received.events)], ["ADDED budget", "MODIFIED budget"]);
      const { items } = await cluster.list("poddisruptionbudgets", { namespace });
      assert.deepEqual(
        items.map(({ metadata }) => metadata.name),
        ["budget", "last"],
      );
      assert.deepEqual(items[0]?.spec?.selector, { matchLabels: { app: "set" } });
    },
  },
  {
    name: "ZoneAwarePodDisruptionBudgets are listed with their kind, and watched; their generation counts the spec",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const resourceVersion = await now(fixture, "zoneawarepoddisruptionbudgets");
      const created = await createZoneBudget(fixture, "budget");
      const key = { namespace, name: "budget" };
      await cluster.patch("zoneawarepoddisruptionbudgets", key, { spec: { maxUnavailable: 2 } });
      await cluster.patch("zoneawarepoddisruptionbudgets", key, { metadata: { labels: { a: "1" } } });
      const { items } = await cluster.list("zoneawarepoddisruptionbudgets", { namespace });
      assert.deepEqual(
        items.map(({ kind, metadata, spec }) => [kind, metadata.generation, spec]),
        [["ZoneAwarePodDisruptionBudget", 2, { selector: { matchLabels: { app: "set" } }, maxUnavailable: 2 }]],
      );
      await cluster.delete("zoneawarepoddisruptionbudgets", key, { uid: created.metadata.uid });
      await createZoneBudget(fixture, "last");
      const query = { namespace, resourceVersion };
      const { events, objects } = await collected(fixture, "zoneawarepoddisruptionbudgets", query, "last");
      assert.deepEqual(events, ["ADDED budget", "MODIFIED budget", "MODIFIED budget", "DELETED budget"]);
      assert.equal(objects[0]?.kind, "ZoneAwarePodDisruptionBudget");
    },
  },
  {
    name: "without a CRD lists and watches get 404; when the CRD comes back, there are no budgets",
    alone: true,
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createZoneBudget(fixture, "budget");
      await fixture.removeBudgetType();
      const resource = "zoneawarepoddisruptionbudgets";
      const { metadata } = await createLease(fixture, "lease");
      const { resourceVersion } = metadata;
      const watch = cluster.watch(resource, { namespace, resourceVersion })[Symbol.asyncIterator]();
      for (const error of [
        await rejection(cluster.list(resource, { namespace })),
        await rejection(cluster.list(resource, { namespace, notOlderThan: resourceVersion })),
        await rejection(cluster.get(resource, { namespace, name: "budget" })),
        await rejection(createZoneBudget(fixture, "budget")),
        await rejection(watch.next()),
      ]) {
        assert.deepEqual([error.code, error.reason], [404, "NotFound"]);
      }
      await fixture.restoreBudgetType();
      assert.deepEqual((await cluster.list(resource, { namespace })).items, []);
      await createZoneBudget(fixture, "budget");
    },
  },
];

export const configurationCases: readonly Case[] = [...secrets, ...configurations, ...budgets];

function createSecret({ cluster, namespace }: Fixture, name = "secret"): Promise<SecretObject> {
  const data = { ca: base64("ca 1"), key: base64("key 1") };
  return cluster.create("secrets", namespace, { metadata: { name }, data });
}

/** Configurations belong to the whole cluster, so each case needs a name of its own. */
function configurationName({ namespace }: Fixture): string {
  return `eviction-${namespace}`;
}

function createConfiguration(
  fixture: Fixture,
  resource: ConfigurationResource,
  webhooks: readonly string[],
  name = configurationName(fixture),
): Promise<WebhookConfigurationObject> {
  return fixture.cluster.create(resource, "", {
    metadata: { name, labels: { contract: fixture.namespace } },
    webhooks: webhooks.map((webhook) => webhookNamed(fixture, webhook)),
  });
}

/** A webhook for a namespace in which nothing is evicted. */
function webhookNamed({ otherNamespace }: Fixture, name: string): object {
  return {
    name: `${name}.contract.sluice.dev`,
    clientConfig: { url: "https://127.0.0.1:1/pods/eviction", caBundle: base64(certificate("ca 1")) },
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": otherNamespace } },
    rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
  };
}

/** Not a certificate: the API server stores the text without parsing it. */
function certificate(text: string): string {
  return `-----BEGIN CERTIFICATE-----\n${base64(text)}\n-----END CERTIFICATE-----\n`;
}

function createBudget({ cluster, namespace }: Fixture, name: string): Promise<PodDisruptionBudgetObject> {
  const spec = { minAvailable: 1, selector: { matchLabels: { app: "set" } } };
  return cluster.create("poddisruptionbudgets", namespace, { metadata: { name }, spec });
}

function createZoneBudget({ cluster, namespace }: Fixture, name: string): Promise<ZoneBudgetObject> {
  return cluster.create("zoneawarepoddisruptionbudgets", namespace, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name },
    spec: { selector: { matchLabels: { app: "set" } }, maxUnavailable: 1 },
  });
}
