/** The table of resource types: where each is served, and whether it is namespaced. */

import assert from "node:assert/strict";
import { type KnownResource, resources } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import type { Case } from "./fixture.ts";

export const resourceCases: readonly Case[] = (Object.keys(resources) as KnownResource[]).map((resource) => {
  const { isNamespaced, group } = resources[resource];
  const scope = isNamespaced ? "a namespace" : "the whole cluster";
  return {
    name: `${resource} are served where the table says, and belong to ${scope}`,
    async run({ cluster, namespace }) {
      // A path of the wrong scope leads nowhere: the server's answer then names no object.
      const error = await rejection(
        cluster.get(resource, { namespace: isNamespaced ? namespace : "", name: "not-there" }),
      );
      const qualified = group === "" ? resource : `${resource}.${group}`;
      assert.deepEqual([error.code, error.reason], [404, "NotFound"]);
      assert.equal(error.message, `${qualified} "not-there" not found`);
      const { items } = await cluster.list(resource, isNamespaced ? { namespace } : {});
      assert.ok(items.every(({ metadata }) => (metadata.namespace !== undefined) === isNamespaced));
    },
  };
});
