/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import {
  governingGuards,
  limitGuards,
  neverGuards,
  partitionGuards,
  podLimitGuards,
  severalBudgetsGuards,
  zoneGuards,
} from "../shared/groups/guards.ts";
import { questionGuards } from "../shared/health/guards.ts";
import { claimGuards, healthGuards } from "../shared/ledger/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...claimGuards,
  ...healthGuards,
  ...questionGuards,
  ...severalBudgetsGuards,
  ...governingGuards,
  ...partitionGuards,
  ...podLimitGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...limitGuards,
  ...neverGuards,
  ...zoneGuards,
  ...otherOperatorGuards,
  restarting: itself("the restart of a process begins"),
  "restart-manager-missing": person(
    "the StatefulSet names no process manager, or not completely",
    "write the annotation that the message names",
  ),
  "service-missing": person(
    "the StatefulSet has no serviceName, or no such Service exists, so that its pods have no names",
    "create a headless Service and name it",
  ),
  "service-hides-unready": person(
    "the governing Service gives no names to pods that are not ready, so a stopped process could not be started again",
    "write publishNotReadyAddresses: true into its spec",
  ),
  "restart-config-missing": person(
    "the Secret with the expected files, or the mounted one, is not there or has no files",
    "make the Secret that the message names, or write its files",
  ),
  "restart-config-refused": person(
    "a Secret with files may not be read or written, or cannot take the files",
    "write the Role, or make the Secret smaller, or without immutable",
  ),
  "restart-config-unreadable": person(
    "a main file cannot be parsed, or nothing shows which settings a process runs with, so that nothing restarts",
    "mend the file that the message names, or write the mode",
  ),
  "restart-config-disagrees": person(
    "files change what all nodes of the group must have in common, and other expected files of the group do not agree",
    "write the same into the Secret that the message names",
  ),
  "restart-config-together": depends(
    "files change what all nodes of the group must have in common, so that no process starts with them alone",
    "nothing where Sluice restarts all together by itself, or see the message",
  ),
  "config-coming": itself(
    "the files are on their way to the pod",
    "nothing: a kubelet brings files within two minutes",
  ),
  "config-not-there": person(
    "the files have not come to the pod within three minutes",
    "see whether the pod mounts the Secret without subPath and items, and whether its kubelet runs",
  ),
  "manager-silent": person(
    "the process manager does not answer, or refuses the token",
    "see the message; a Role must let Sluice read the Secret",
  ),
  "manager-busy": depends("the process stops already, or its runner is away", "nothing, or see the pod"),
  "pod-terminating": itself("the pod is on its way out", "nothing: the next pod is a new process"),
  "pod-missing": depends("the pod is gone", "nothing: the next pod is a new process"),
  "restart-calling": itself("the restart is under way, and the process manager is called"),
  "restart-stopping": itself("the restart is under way, and the process stops"),
  "restart-starting": itself("the restart is under way, and the process starts"),
  "restart-joining": depends(
    "the process runs, and its node is no member of the database yet",
    "nothing, or see the log of the node",
  ),
  "restart-parked": itself(
    "a process was parked less than a minute ago",
    "nothing: the others restart when allocation is free again",
  ),
  "databases-differ": person(
    "the StatefulSets of the group name two databases",
    "put each database into a group of its own",
  ),
  "rollout-due": depends(
    "a rollout is to replace the pod, or its StatefulSet is behind its spec",
    "nothing: the new pod is a new process; or pause the rollout to restart the process before",
  ),
  "restart-failed": person(
    "a restart in the group has failed, and no other pod restarts in its turn",
    "mend the process, and then write schedule-rolling or cancel on the pod that the message names",
  ),
  "restart-gathering": itself(
    "pods may still join those that restart together",
    "nothing: it begins 10 s after the last one",
  ),
  "restart-beside-others": depends(
    "something else is reserved in the group, and all processes stop only while nothing else goes on",
    "nothing, or see what the message names",
  ),
  "members-elsewhere": depends(
    "a member of the database is no pod of the group, and would run while all others are down",
    "stop that node, or write members-elsewhere into the annotation that the message names",
  ),
  "database-unknown": depends("the database gives no answer, or another one than expected", "see the message"),
  "database-settled": depends("the database is red, or is yellow and moves", "nothing, or mend the database"),
  "started-copy": depends("the pod has the last whole copy of a shard", "nothing, or mend the other copies"),
  "masters-whole": depends(
    "a node that is eligible as master is no member of the database",
    "mend the pod of that node",
  ),
  "role-elsewhere": depends("no other node with a role of the pod is available", "mend the other nodes with that role"),
};
