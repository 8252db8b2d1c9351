/** The guards of claims, and of questions to pods before they go: why other functions wait. */
import { depends, type Guards, itself, person } from "../base/guards.ts";

/** Why a function waits for a claim of another one. */
export const claimGuards = {
  "zone-scaling-down": depends(
    "a scale-down has claimed pods of a zone",
    "nothing: it ends with the scale-down, or is undone 90 s after it was given up",
  ),
  "zone-removing-volume": depends("a volume of a zone is being removed", "nothing, or see the volume claim"),
  "zone-restarting-process": depends(
    "processes of a zone are being restarted in their pods",
    "nothing, or mend the pods that the message names",
  ),
  "zone-losing-node": depends(
    "a node of a zone has failed, and its pods are announced as down",
    "nothing: it ends when they are back elsewhere, or the fence is lifted",
  ),
  "zone-claim-unknown": depends(
    "a later version of Sluice has claimed something of a zone for a purpose that this version does not know",
    "end the update of Sluice, or wait for the function that the message names",
  ),
} as const satisfies Guards;

/** What the answers of pods about their health say. */
export const healthGuards = {
  "health-bad": depends(
    "Sluice asked the pod, and the pod says no",
    "mend the other pods, and wait until they are in sync",
  ),
  "health-unknown": person("Sluice asked the pod, and got no answer", "see the message"),
  "health-beside-others": itself(
    "something else is reserved in the group, and pods that are asked go one at a time",
    "nothing: it ends when that pod is back",
  ),
  "health-stale": itself("the ledger has changed since Sluice asked the pod", "nothing: Sluice asks it again"),
} as const satisfies Guards;
