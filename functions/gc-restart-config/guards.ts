/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { contendedGuards, ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...contendedGuards,
  ...otherOperatorGuards,
  "config-removing": itself("a Secret that nothing has named for 15 minutes is removed"),
  "config-unnamed": itself("nothing names a Secret, and its 15 minutes are not over"),
  "config-restarting": depends(
    "a process of the group is being restarted, and no Secret is removed meanwhile",
    "nothing, or mend the restart",
  ),
  "config-forbidden": person("a Secret may not be read or removed", "write the Role that the message names"),
};
