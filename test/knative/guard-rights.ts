/** What an account needs to write each word of ours, on each kind of object that has such words. Written by hand. */

/**
 * `free`: the right to write the object is enough. `save`: likewise for "true", and as `delete` for all else. `delete`: that
 * verb on the volume claim and on pods. `finalizer`: that verb on the volume claim, or repair. `labels`: the verb patch on pods.
 * `repair`, `edit`: the guard's own verbs.
 */
export type Rule = "free" | "save" | "delete" | "finalizer" | "labels" | "repair" | "edit";
export type Kind = "claim" | "rabbitmqcluster" | "foundationdbcluster";

const onClaim = (rule: Rule) => ({ claim: rule }) as const;
const onOwner = (rule: Rule) => ({ rabbitmqcluster: rule, foundationdbcluster: rule }) as const;
/** Of a StatefulSet, which may have it on its volume claims, too: no function obeys all of them there, and one day some may. */
const onBoth = { claim: "delete", ...onOwner("free") } as const;

/**
 * By its key. An empty line is for labels of StatefulSets and of webhook configurations, words on pods, and ledgers, which are
 * guarded as a whole.
 */
export const rules: Readonly<Record<string, Partial<Record<Kind, Rule>>>> = {
  "sluice.dev/hold": { claim: "save", ...onOwner("free") },
  "sluice.dev/recover": onClaim("save"),
  "sluice.dev/retain-pv": { claim: "save", ...onOwner("free") },
  "sluice.dev/suspend": onClaim("delete"),
  "sluice.dev/drained-at": onClaim("delete"),
  "sluice.dev/suspend-duration": onBoth,
  "sluice.dev/removal-mode": onBoth,
  "sluice.dev/wait-between-removals": onBoth,
  "sluice.dev/owner": onClaim("delete"),
  "sluice.dev/zone": onClaim("delete"),
  "sluice.dev/zone-label": onClaim("delete"),
  "sluice.dev/pod-selector": onClaim("delete"),
  "sluice.dev/drain-url": onBoth,
  "sluice.dev/drain-field": onBoth,
  "sluice.dev/drain-secret": onBoth,
  "sluice.dev/drain-authority": onBoth,
  "sluice.dev/drain-witnesses": onBoth,
  "sluice.dev/suspend-state": onClaim("repair"),
  "sluice.dev/suspend-owner-uid": onClaim("repair"),
  "sluice.dev/suspend-pod-uid": onClaim("repair"),
  "sluice.dev/suspend-together": onClaim("repair"),
  "sluice.dev/suspend-pod-created": onClaim("repair"),
  "sluice.dev/suspended-at": onClaim("repair"),
  "sluice.dev/suspend-kept-for": onClaim("repair"),
  "sluice.dev/suspend-message": onClaim("repair"),
  "sluice.dev/removal-claim": onClaim("repair"),
  "sluice.dev/removal-held": onClaim("repair"),
  "sluice.dev/suspended": onClaim("repair"),
  "sluice.dev/protected": onClaim("repair"),
  "sluice.dev/skip-label": onOwner("labels"),
  "sluice.dev/skip-deadline": onOwner("labels"),
  "sluice.dev/stop-all": onOwner("labels"),
  "sluice.dev/skip-status": onOwner("repair"),
  "sluice.dev/held-process-groups": onOwner("repair"),
  "sluice.dev/protect-volumes": onOwner("free"),
  "sluice.dev/unprepared-pods": onBoth,
  "sluice.dev/skip-labelled-at": {},
  "sluice.dev/suspendable": {},
  "sluice.dev/review-key": {},
  "sluice.dev/rebalance-queues": {},
  "sluice.dev/rebalance-secret": onBoth,
  "sluice.dev/rebalance-state": onBoth,
  "sluice.dev/restart-id": {},
  "sluice.dev/restart-reason": {},
  "sluice.dev/restart-mode": {},
  "sluice.dev/restart-settings": {},
  "sluice.dev/stop": {},
  "sluice.dev/restart-manager": onBoth,
  "sluice.dev/restart-manager-secret": onBoth,
  "sluice.dev/restart-database": onBoth,
  "sluice.dev/restart-config": onBoth,
  "sluice.dev/restart-mounted": onBoth,
  "sluice.dev/restart-database-url": onBoth,
  "sluice.dev/restart-database-secret": onBoth,
  "sluice.dev/restart-unchecked": onBoth,
  "sluice.dev/restart-trigger": onBoth,
  "sluice.dev/health-question": onBoth,
  "sluice.dev/health-url": onBoth,
  "sluice.dev/health-secret": onBoth,
  "sluice.dev/health-authority": onBoth,
  "sluice.dev/health-field": onBoth,
  "sluice.dev/health-unknown": onBoth,
  "sluice.dev/group": {},
  "sluice.dev/format": {},
  "sluice.dev/settled-through": {},
  "sluice.dev/members-through": {},
  "sluice.dev/members": {},
  "sluice.dev/reservations": {},
  "sluice.dev/claims": {},
  "sluice.dev/refusals": {},
  "sluice.dev/verdicts": {},
  "sluice.dev/last-downscales": {},
  "sluice.dev/looks": {},
  "sluice.dev/last-removal": {},
  "sluice.dev/last-restart": {},
  "sluice.dev/restart-configs": {},
  "sluice.dev/restart-triggers": {},
  // On Nodes, and in Leases of the fencing namespace, for which no manifest ships a policy yet.
  "sluice.dev/fence": {},
  "sluice.dev/unhealthy": {},
  "sluice.dev/fence-strategy": {},
  "sluice.dev/fence-confirmed": {},
  "sluice.dev/fence-phase": {},
  "sluice.dev/fence-id": {},
  "sluice.dev/fence-hold": {},
  "sluice.dev/fence-record": {},
  "sluice.dev/fence-boot-id": {},
  "sluice.dev/fence-machine": {},
  "sluice.dev/fence-since": {},
  "sluice.dev/fence-agent": {},
  "sluice.dev/fence-evidence": {},
  "sluice.dev/node-backup": {},
  "sluice.dev/fence-settling": {},
  "sluice.dev/agent-mode": {},
  "sluice.dev/agent-why": {},
  "sluice.dev/agent-boot-id": {},
  "sluice.dev/agent-watchdog-seconds": {},
  "sluice.dev/agent-permit-seconds": {},
  "sluice.dev/agent-contact-seconds": {},
  "sluice.dev/agent-fresh-seconds": {},
  "sluice.dev/agent-renewals": {},
  "sluice.dev/agent-peers": {},
  "sluice.dev/agent-key": {},
  "sluice.dev/agent-address": {},
  "sluice.dev/agent-peers-proposed": {},
  "sluice.dev/fence-armed": {},
  "sluice.dev/fence-slots": {},
};

/** What no version knows yet, and what is not ours. */
export const besides: Readonly<Record<string, Partial<Record<Kind, Rule>>>> = {
  "sluice.dev/of-a-later-version": { claim: "free", ...onOwner("free") },
  "example.com/note": { claim: "free", ...onOwner("free") },
};

export const finalizers = ["sluice.dev/volume-hold", "sluice.dev/volume-protection"];
