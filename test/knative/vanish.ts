/** Groups go, and their ledgers after them: what the account of the function needs that makes and collects these. */
import assert from "node:assert/strict";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, readAudit } from "../controlplane/audit.ts";
import { changed, post, tick } from "../support/posted.ts";
import type { Scene } from "../support/scene.ts";
import { alone, brief, budgets, type Cast } from "./walk.ts";

/** Annotation that no version writes yet: a ledger that has it is not collected. */
const later = "sluice.dev/of-later";

/** One of them holds a reservation of a pod that is gone. */
export async function vanish(scene: Scene, { ledgers: keeper }: Cast, user: string): Promise<void> {
  const { api, group } = scene;
  const { namespace } = group;
  const ledgers = async () => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    const { items } = await api.get<{ items: { metadata: { annotations?: Record<string, string> } }[] }>(path);
    return items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  };
  const doomed = [brief, `budget:${alone}`];
  await eventually("their ledgers made", 30_000, async () => {
    const there = await ledgers();
    return doomed.every((group) => there.includes(group)) ? true : undefined;
  });
  assert.equal(await post(keeper, changed("StatefulSet", namespace, `${brief}-zone-a`)), 204);
  // An event is answered before what it names is looked up: without a StatefulSet there is nothing to look for.
  await eventually("a ledger looked at for an event", 30_000, () =>
    asked(scene, user, ({ verb, resource }) => verb === "get" && resource === "leases"),
  );
  await checkScene(scene, keeper, user);
  await api.delete(`/apis/${budgets}/namespaces/${namespace}/zoneawarepoddisruptionbudgets/${alone}`);
  await eventually("their ledgers gone", 60_000, async () => {
    await post(keeper, tick);
    const there = await ledgers();
    return doomed.some((group) => there.includes(group)) ? undefined : true;
  });
}

/**
 * A reservation in the ledger of a group that is gone is looked into. The roller learns of the group's end as well, and drops
 * the reservation: it is made again until `keeper` has found it first.
 */
async function checkScene(scene: Scene, keeper: Cast["ledgers"], user: string): Promise<void> {
  const { api, group } = scene;
  const { namespace } = group;
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(brief)}`;
  const write = (annotations: Readonly<Record<string, string | null>>) =>
    api.patch(path, { metadata: { annotations } });
  await write({ [later]: "in use" });
  await api.delete(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${brief}-zone-a`);
  const reserved = { [`${brief}-zone-z`]: { 0: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  await eventually(
    "a reservation of a group that is gone looked into",
    60_000,
    async () => {
      await write({ "sluice.dev/reservations": JSON.stringify(reserved) });
      await post(keeper, tick);
      return asked(scene, user, ({ resource, name }) => resource === "pods" && name === `${brief}-zone-z-0`);
    },
    1_000,
  );
  await write({ [later]: null });
}

/** True when the user has made such a request in the namespace; undefined until then. */
async function asked(
  { controlPlane: { auditLog }, group: { namespace } }: Scene,
  user: string,
  isSuch: (entry: AuditEntry) => boolean,
): Promise<true | undefined> {
  for await (const entry of readAudit(auditLog, {}, () => {}))
    if (entry.user === user && entry.namespace === namespace && isSuch(entry)) return true;
  return undefined;
}
