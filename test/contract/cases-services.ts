/** Services: whether one names pods that are not ready. */
import assert from "node:assert/strict";
import { find } from "../../functions/shared/kubernetes/find.ts";
import type { Case } from "./fixture.ts";

export const serviceCases: readonly Case[] = [
  {
    name: "a Service says whether pods that are not ready have names by it, and by default they have none",
    async run({ cluster, namespace }) {
      const spec = { clusterIP: "None" } as object;
      await cluster.create("services", namespace, { metadata: { name: "usual" }, spec });
      const published = { ...spec, publishNotReadyAddresses: true };
      await cluster.create("services", namespace, { metadata: { name: "all" }, spec: published });
      const publishes = async (name: string) =>
        (await cluster.get("services", { namespace, name })).spec?.publishNotReadyAddresses;
      assert.deepEqual([await publishes("usual"), await publishes("all")], [undefined, true]);
      await cluster.patch("services", { namespace, name: "usual" }, { spec: { publishNotReadyAddresses: true } });
      await cluster.patch("services", { namespace, name: "all" }, { spec: { publishNotReadyAddresses: null } });
      assert.deepEqual([await publishes("usual"), await publishes("all")], [true, undefined]);
      assert.equal(await find(cluster, "services", { namespace, name: "not-there" }), undefined);
    },
  },
];
