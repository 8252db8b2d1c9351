/** What `kubectl sluice --help` prints. */
import { rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { groupOfBudget } from "../../functions/shared/workloads/group-key.ts";
import { functionSettings } from "../table.ts";
import { usualPort, usualReason, usualTimeout } from "./commands.ts";

export const help = `Shows what all groups do, says why pods of a group or of a node wait, pauses rollouts, removes a reservation that no function can
act on any more, brings back suspended volumes, fences nodes, and restarts processes inside their pods.

  kubectl sluice status [GROUP] [-n NAMESPACE | -A] [-w] [-o json]
  kubectl sluice page [--port ${usualPort}] [-n NAMESPACE]
  kubectl sluice why [GROUP] [-n NAMESPACE | -A] [-o json]
  kubectl sluice wait GROUP [--for done|idle] [--timeout 30m] [-n NAMESPACE]
  kubectl sluice drain NODE [-n NAMESPACE]
  kubectl sluice pause GROUP [ZONE] [-n NAMESPACE] [--dry-run]
  kubectl sluice resume GROUP [ZONE] [-n NAMESPACE] [--dry-run]
  kubectl sluice release GROUP POD [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice suspended [GROUP] [-n NAMESPACE | -A] [-o json|yaml]
  kubectl sluice recover CLAIM... | GROUP [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice recover process-groups CLUSTER ID... [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice fence NODE [--reason TEXT] [--mark KEY] [--dry-run]
  kubectl sluice fenced [NODE] [--mark KEY] [-n NAMESPACE] [-o json|yaml]
  kubectl sluice confirm NODE --yes [-n NAMESPACE] [--dry-run]
  kubectl sluice restart GROUP [POD] [--coordinated | --cancel] [-n NAMESPACE] [--dry-run]
  kubectl sluice check [-n NAMESPACE]
  kubectl sluice version [-n NAMESPACE]

GROUP is the value of the label ${rolloutGroup.key}, or ${groupOfBudget("NAME")} for the StatefulSets without that label
which the ZoneAwarePodDisruptionBudget NAME selects.

status shows what needs you, what is at work and why it waits, and what is at rest. It reads all of that itself, so that it works
without the page. With -w it shows each change: on a screen it draws anew, and into a pipe it prints a line. It writes nothing.

page makes the page of a ready replica reachable on this machine by kubectl port-forward, which must be on PATH, and prints its
URL. If that replica goes, it takes another one. Ctrl-C ends it.

why writes nothing. It says what is ready, outdated and down in each zone of a group. It lists the reserved pods, with the
function that reserved each one and what becomes of the reservation. It says what each function last said, whether that
still holds, and what comes next. Without GROUP it prints one line for each group of the namespace.

wait waits until a group is done: every wanted pod is ready at the wanted revision. With --for idle it also waits until nothing
is reserved or claimed, and for two minutes after the last eviction that was held or refused. It writes nothing.

drain asks by dry runs what an eviction of each pod of a node would be answered now: allowed, waits (kubectl drain tries again),
or never (kubectl drain gives up). It evicts and cordons nothing. With -n it asks about the pods of that namespace alone.

pause stops the rollout of a group, or of one of its zones, and resume lets it go on. ZONE is the name of a StatefulSet. A pause
stops neither evictions nor downscales, and while a pod of a paused zone is not ready, no other zone is rolled.

release removes one reservation from the group's ledger. It obeys the rules of every function: it removes a reservation only
when no function can still act on it. Before that time it refuses, and says when it can and what would end the reservation
by itself. Nothing overrides that.

suspended lists the volume claims that are kept after their pods have gone: since when, for how long, how large they are,
and what each of them waits for.

recover brings the pods of suspended volume claims back, each with the same volume. It only writes the wish; a function of
Sluice carries it out. Past the point of no return it refuses, and says how the volume itself is saved. CLUSTER is a
FoundationDBCluster, and each ID a process group of it, such as storage-1.

fence marks a node that does not answer: fence-node resets it, waits for evidence that it has stopped, and lets its pods start
elsewhere. fenced lists the fences, what each of them waits for, and the agents that do not reset their node by themselves.
confirm is that evidence, by your word: write it once you have seen that the machine is off, and never before.

restart restarts the process of POD inside its pod, now; without POD those of the group, one after the other. It only writes
the wish; advance-process-restart carries it out, and why shows how it goes on.

check has one line for each part of an installation: CRD, replicas, versions, certificate, webhooks, rollout-operator, your
rights, and those that Sluice lacks. What is wrong has the command that mends it. It asks by a dry run, and writes nothing.

version shows the versions of this plugin, of each replica of Sluice and of the API server, and warns where minor versions differ.

  -n, --namespace NAMESPACE  not given: that of the kubeconfig's context; in a pod of Sluice one that it serves; for fenced and
                             confirm that of the agents' Leases, ${functionSettings.fenceNamespace.fallback}
  -A, --all-namespaces       for status, why and suspended
  -o, --output json          for status, why, suspended and fenced: everything, for programs; the latter two know yaml, too.
                             All times are RFC 3339 by the API server's clock
      --wait                 for release: wait until it can, or until the reservation has ended; for recover: until the
                             pods are ready; Ctrl-C ends it
      --dry-run              for commands that write: say what would be done, and write nothing
      --reason TEXT          for fence: what the mark says; not given: ${usualReason}
      --mark KEY             for fence and fenced: the annotation that marks a node, as FENCE_MARK of the functions has it; not
                             given: ${functionSettings.fenceMark.fallback}
      --yes                  for confirm: the machine is off
      --coordinated          for restart: all processes of the group are down at the same time
      --cancel               for restart: withdraw what has not begun, and start again what was stopped
      --for done|idle        for wait; not given: done
      --timeout DURATION     for wait: 0 reads once; not given: ${usualTimeout}
  -w, --watch                for status: show each change; Ctrl-C ends it
      --port PORT            for page: of this machine; 0 is any free one; not given: ${usualPort}
      --kubeconfig FILE      not given: $KUBECONFIG, a pod's service account, or ~/.kube/config
      --context NAME         not given: the kubeconfig's current one
  -h, --help

The Tab key offers commands, groups, pods and volume claims where kubectl_complete-sluice is on PATH beside this program.

Exit codes: 0 it has said or done what you asked; 1 it refuses, there is no such group, reservation, claim or node, a right is
missing, or the API server is away; 2 the command line or the kubeconfig is wrong, or Node is too old. wait also ends with 1 at
its time-out, and with 3 when the group needs a person; drain with 3 if some pods wait, and with 1 if some never go.
`;
