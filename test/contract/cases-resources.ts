/** The table of resource types: where each is served, and of what it is. */

import assert from "node:assert/strict";
import { type KnownResource, resources } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import type { Case } from "./fixture.ts";

export const resourceCases: readonly Case[] = (Object.keys(resources) as KnownResource[]).map((resource) => {
  const { isNamespaced, group } = resources[resource];
  const scope = isNamespaced ? "a namespace" : "the whole cluster";
  return {
    name: `${resource} are served where the table says, and are of ${scope}`,
    async run({ cluster, namespace }) {
      // By a path of the wrong scope nothing is served at all: the server then says so, and names no object.
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
