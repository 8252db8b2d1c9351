/** An outage is claimed in the ledger, and then the ConfigMap names its claim. */
import type { Act } from "../../../../functions/shared/reconcile/act.ts";
import type { EventPolicy } from "../../../../functions/shared/reconcile/record.ts";
import type { Target } from "./decide.ts";
import { anchorAnnotation, claimIdOf } from "./observe.ts";

export const eventPolicy: EventPolicy = {
  taking: "announcing",
  reasons: { begins: "OutageBegins", waits: "OutageWaits", ends: "OutagesAnnounced" },
  quietGuards: new Set(["node-present", "not-approved"]),
};

export function actOn({ statefulSet, outage }: Target): Act {
  const { namespace, name, uid, ordinal, podUid } = outage;
  const id = claimIdOf(uid);
  const pod = `${statefulSet.name}-${ordinal}`;
  return {
    name: "announce",
    object: name,
    subjectUid: uid,
    workload: statefulSet,
    claims: [
      {
        id,
        kind: "node",
        zone: statefulSet.name,
        members: [{ first: ordinal, last: ordinal }],
        phase: "announced",
        terms: "announced",
        anchor: { resource: "configmaps", name, annotation: anchorAnnotation },
        ...(podUid === undefined ? {} : { uids: { [pod]: podUid } }),
      },
    ],
    async carryOut({ cluster }, notAfterMs) {
      const metadata = { uid, annotations: { [anchorAnnotation]: id } };
      await cluster.patch("configmaps", { namespace, name }, { metadata }, { notAfterMs });
    },
    event: { type: "Normal", reason: "OutageAnnounced", message: `${pod} is lost, says ${name}`, identity: id },
  };
}
