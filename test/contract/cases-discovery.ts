/** Kinds that users name: discovery must report them, and the verbs must reach their objects. */
import assert from "node:assert/strict";
import {
  ClusterError,
  type DiscoveredResource,
  KindNotServedError,
  type KnownResource,
  resources,
  type ServedKind,
} from "../../functions/shared/kubernetes/cluster.ts";
import type { KindDefinition } from "../fake-cluster/objects.ts";
import { rejection } from "../support/rejection.ts";
import { type Case, eventually, type Fixture, revisionOf } from "./fixture.ts";

/** A kind in a group that no other case has. */
function kindOf({ namespace }: Fixture, kind: string, more: Partial<KindDefinition> = {}): KindDefinition {
  const plural = `${kind.toLowerCase()}s`;
  return { group: `${namespace}.example.com`, version: "v1", kind, plural, isNamespaced: true, ...more };
}

/** Resolves as soon as discovery reports the kind, which may be some seconds after its CRD is created. */
async function served({ cluster }: Fixture, { group, kind }: KindDefinition): Promise<ServedKind> {
  const ask = () => cluster.resourceOf(group, kind).catch(unlessMissing);
  return (await eventually(`${kind} of ${group}`, ask, (found) => found !== undefined)) as ServedKind;
}

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof KindNotServedError)) throw error;
}

const found: readonly Case[] = [
  {
    name: "every kind of the table is found by discovery as the table has it, under the same name",
    async run({ cluster }) {
      for (const resource of Object.keys(resources) as KnownResource[]) {
        const { group, kind, apiPath, isNamespaced } = resources[resource];
        const version = apiPath.slice(apiPath.lastIndexOf("/") + 1);
        const hasScale = ["statefulsets", "deployments", "replicasets"].includes(resource);
        const expected = { resource, plural: resource, group, kind, version, apiPath, isNamespaced, hasScale };
        assert.deepEqual(await cluster.resourceOf(group, kind), expected);
      }
    },
  },
  {
    name: "a kind of a CRD is found, with its scale, and get, list, patch and scale reach its objects",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const template = kindOf(fixture, "Template", { hasScale: true });
      await fixture.defineKind(template);
      const apiPath: DiscoveredResource = `/apis/${template.group}/v1`;
      const resource: DiscoveredResource = `${apiPath}/templates`;
      assert.deepEqual(await served(fixture, template), { ...template, apiPath, resource });
      const key = { namespace, name: "one" };
      const body = {
        apiVersion: `${template.group}/v1`,
        kind: "Template",
        metadata: { name: "one" },
        spec: { replicas: 3 },
      };
      const created = await eventually(
        "the first object of a new type",
        () => cluster.create(resource, namespace, body).catch(unlessUnready),
        (object) => object !== undefined,
      );
      assert.equal((await cluster.get(resource, key)).metadata.uid, created?.metadata.uid);
      const { items } = await cluster.list(resource, { namespace });
      assert.deepEqual(
        items.map(({ kind, metadata, spec }) => [kind, metadata.name, spec]),
        [["Template", "one", { replicas: 3 }]],
      );
      await cluster.patch(resource, key, { status: { replicas: 2 } }, { subresource: "status" });
      const scale = await cluster.get(resource, key, { subresource: "scale" });
      assert.deepEqual(
        [scale.spec, scale.status, scale.metadata.uid],
        [{ replicas: 3 }, { replicas: 2 }, created?.metadata.uid],
      );
      const { resourceVersion } = scale.metadata;
      const after = await cluster.patch(
        resource,
        key,
        { metadata: { resourceVersion }, spec: { replicas: 5 } },
        { subresource: "scale" },
      );
      assert.deepEqual(after.spec, { replicas: 5 });
      assert.ok(revisionOf(after) > revisionOf(scale));
      const late = cluster.patch(
        resource,
        key,
        { metadata: { resourceVersion }, spec: { replicas: 6 } },
        { subresource: "scale" },
      );
      assert.equal((await rejection(late)).code, 409);
      const { spec, metadata } = await cluster.patch(resource, key, { metadata: { labels: { a: "1" } } });
      assert.deepEqual([spec, metadata.labels], [{ replicas: 5 }, { a: "1" }]);
      const gone = await rejection(cluster.get(resource, { namespace, name: "two" }, { subresource: "scale" }));
      assert.deepEqual([gone.code, gone.message], [404, `templates.${template.group} "two" not found`]);
    },
  },
  {
    name: "discovery reports a kind without a scale, and a cluster-wide kind, as such, and their objects have no scale",
    async run(fixture) {
      const { cluster } = fixture;
      const zone = kindOf(fixture, "Zone", { isNamespaced: false });
      await fixture.defineKind(zone);
      const { resource, hasScale, isNamespaced } = await served(fixture, zone);
      assert.deepEqual([hasScale, isNamespaced], [false, false]);
      const key = { namespace: "", name: "a" };
      const body = { apiVersion: `${zone.group}/v1`, kind: "Zone", metadata: { name: "a" } };
      await eventually(
        "the first object",
        () => cluster.create(resource, "", body).catch(unlessUnready),
        (object) => object !== undefined,
      );
      assert.equal((await cluster.get(resource, key)).metadata.namespace, undefined);
      assert.equal((await rejection(cluster.get(resource, key, { subresource: "scale" }))).code, 404);
    },
  },
  {
    name: "a kind that only a version other than the preferred one of its group has is found in that version",
    async run(fixture) {
      const [stable, early] = [kindOf(fixture, "Stable"), kindOf(fixture, "Early", { version: "v2beta1" })];
      await fixture.defineKind(early);
      await fixture.defineKind(stable);
      assert.equal((await served(fixture, early)).resource, `/apis/${early.group}/v2beta1/earlys`);
      assert.equal((await served(fixture, stable)).version, "v1");
    },
  },
];

const missing: readonly Case[] = [
  {
    name: "a kind that the API server does not serve is an error that says what to do",
    async run(fixture) {
      const { cluster } = fixture;
      for (const [group, kind, where] of [
        ["unserved.example.com", "Template", 'the group "unserved.example.com"'],
        ["apps", "Pod", 'the group "apps"'],
        ["", "Template", "the core group"],
        // A text that is no name of a group becomes no part of a path.
        ["../../version", "Template", 'the group "../../version"'],
        ["apps/v1", "StatefulSet", 'the group "apps/v1"'],
      ] as const) {
        const error = await rejection(cluster.resourceOf(group, kind));
        assert.ok(error instanceof KindNotServedError && error instanceof ClusterError);
        assert.deepEqual([error.code, error.reason], [404, "KindNotServed"]);
        const remedy = "install its CustomResourceDefinition, or correct the kind or its group";
        assert.equal(error.message, `the API server serves no kind "${kind}" in ${where}: ${remedy}`);
      }
    },
  },
  {
    name: "a kind is found soon after its CRD is created, even if it was missing before, and is missing again after a 404 once its CRD is removed",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const template = kindOf(fixture, "Late");
      assert.ok((await rejection(cluster.resourceOf(template.group, "Late"))) instanceof KindNotServedError);
      await fixture.defineKind(template);
      const { resource } = await served(fixture, template);
      await fixture.removeKind(template);
      const key = { namespace, name: "one" };
      const list = () => cluster.list(resource, { namespace }).catch(({ code }: ClusterError) => code);
      await eventually("the end of the type", list, (answer) => answer === 404);
      assert.equal((await rejection(cluster.get(resource, key))).code, 404);
      await eventually(
        "word of it",
        () => cluster.resourceOf(template.group, "Late").catch(unlessMissing),
        (still) => still === undefined,
      );
    },
  },
];

export const discoveryCases: readonly Case[] = [...found, ...missing];

/** For a moment after its CRD is created, requests for a type are answered with 404 or 429. */
function unlessUnready(error: unknown): undefined {
  if (!(error instanceof ClusterError && [404, 429].includes(error.code))) throw error;
}
