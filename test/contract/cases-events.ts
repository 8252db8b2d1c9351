/** Events: the status lists those of Sluice alone. */
import assert from "node:assert/strict";
import { createEvent } from "../../functions/shared/events/event.ts";
import { rejection } from "../support/rejection.ts";
import type { Case } from "./fixture.ts";

export const eventCases: readonly Case[] = [
  {
    name: "Events are listed by the component that sent them, with what they are about, their reason, message and time",
    async run({ cluster, namespace }) {
      const about = { resource: "statefulsets", namespace, name: "db-zone-a", uid: "1" } as const;
      const event = { about, type: "Normal", reason: "EvictionRefused", message: "zone-budget: 1 of 3 down" } as const;
      await createEvent(cluster, "evaluate-eviction", { ...event, identity: "one" });
      const other = { involvedObject: { kind: "StatefulSet", namespace, name: "db-zone-a" }, reason: "Other" };
      const sent = (name: string, more: object) =>
        cluster.create("events", namespace, { metadata: { name }, ...other, ...more });
      await sent("other", { source: { component: "sluice-other" }, reportingComponent: "sluice" });
      await sent("later", { reportingComponent: "sluice", reportingInstance: "x" });
      const { items } = await cluster.list("events", { namespace, source: "sluice" });
      const [ours, later] = items.toSorted((one) => (one.reason === "Other" ? 1 : -1));
      assert.deepEqual([items.length, later?.metadata.name], [2, "later"]);
      assert.deepEqual(
        [ours?.involvedObject?.name, ours?.reason, ours?.message, ours?.source?.component],
        ["db-zone-a", "EvictionRefused", "zone-budget: 1 of 3 down", "sluice"],
      );
      assert.ok(Math.abs(Date.parse(ours?.lastTimestamp ?? "") - cluster.serverTimeMs()) < 60_000);
    },
  },
  {
    name: "a list of more objects than the caller keeps is 413",
    async run({ cluster, namespace }) {
      for (const name of ["one", "two"])
        await cluster.create("events", namespace, {
          metadata: { name },
          involvedObject: { kind: "StatefulSet", namespace, name: "db-zone-a" },
          source: { component: "sluice" },
        });
      const query = { namespace, source: "sluice" };
      assert.equal((await cluster.list("events", { ...query, atMost: 2 })).items.length, 2);
      const error = await rejection(cluster.list("events", { ...query, atMost: 1 }));
      assert.deepEqual([error.code, error.reason], [413, "TooMany"]);
    },
  },
  {
    name: "only Events are listed by the component that sent them: a list of another type by it is 400",
    async run({ cluster, namespace }) {
      const error = await rejection(cluster.list("leases", { namespace, source: "sluice" }));
      assert.deepEqual([error.code, error.reason], [400, "BadRequest"]);
      assert.match(error.message, /"source" is not a known field selector/);
    },
  },
];
