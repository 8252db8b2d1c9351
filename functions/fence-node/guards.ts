/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { objectGuards } from "../shared/reconcile/guards.ts";

export const guards: Guards = {
  ...objectGuards,
  "not-marked": itself("the Node has no mark, so that no fence begins", "nothing: see the message"),
  "machine-unclear": person(
    "two Machines name the Node, so that no mark of them counts",
    "delete the Machine that is out of date, or mark the Node itself",
  ),
  "never-fenced": depends(
    "the Node excludes itself from fencing",
    "take the annotation off the Node that the message names",
  ),
  "name-too-long": person(
    "the name of the Node has more than 247 characters",
    "register the machine under another name",
  ),
  "name-reserved": person("the Node is called slots", "register the machine under another name"),
  "boot-unknown": depends(
    "the kubelet of the Node has never reported a boot",
    "wait for its first status, or delete the Node",
  ),
  proposing: itself("an agent gets another list of peers"),
  claiming: itself("the fence begins, and its record is written"),
  "taking-slot": itself("the fence takes a slot"),
  announcing: itself("the pods of the node are announced in the ledgers as down"),
  releasing: itself("the fence gives its slot back"),
  tainting: itself("the Node gets a taint"),
  arming: itself("the agent of the node is told to stop it"),
  armed: itself("the fence is armed, and waits for evidence that the machine has stopped"),
  stopped: itself("there is evidence that the machine has stopped"),
  evacuating: itself("the pods of the node go"),
  evacuated: itself("the pods of the node are gone"),
  deleting: itself("the Node is being deleted"),
  deleted: itself("the Node is deleted"),
  restoring: itself("the Node is being made again"),
  restored: itself("the Node is made again"),
  recovering: itself("the machine is back, and its claims are returned"),
  settling: itself("the machine is back, and its pods settle"),
  cleaning: itself("something that a fence left is taken off the Node"),
  "taking-back": itself("the fence is taken back before it has stopped the machine"),
  fenced: person("the machine is down, and its pods may run elsewhere", "repair the machine, or take the mark away"),
  "not-ready": person("the machine is back, and its Node is not Ready", "read the log of its kubelet, and repair it"),
  loop: person(
    "the node was fenced too often within an hour, and is emptied",
    "repair the node, and then take the mark away",
  ),
  "no-agent": person(
    "time is no evidence for this node: there is no agent on it",
    "reset the machine; if it stays off, run kubectl sluice confirm",
  ),
  "not-armed": person(
    "time is no evidence for this node, and the message says why",
    "reset the machine, or switch it off and run kubectl sluice confirm",
  ),
  quorum: person(
    "the peers of the node may have excused it",
    "repair the network, or wait for the end of the partition",
  ),
  "still-alive": person(
    "the node is confirmed to be off while its Node is Ready, or its time is over while its kubelet reports",
    "reset the machine by hand",
  ),
  "another-machine": person(
    "another machine has registered under the name",
    "find the first machine, switch it off, and run kubectl sluice confirm",
  ),
  "node-gone": person(
    "another client has deleted the Node, and pods are bound to it",
    "see to it at once that the machine is off",
  ),
  "foreign-fence": depends("another tool fences the node", "let that tool finish, or uninstall it"),
  maintenance: depends("the condition MaintenanceInProgress of the Node is True", "end the maintenance"),
  ledger: depends(
    "a ledger cannot be written now",
    "look for what refuses Leases in the namespace that the message names",
  ),
  "boot-unclear": itself("the Node and the agent name different boots", "nothing: it ends within a minute"),
  budget: depends(
    "as many fences have a slot as may be",
    "look at the fences that have a slot: the message names their nodes",
  ),
  storm: person(
    "too many nodes are marked or not Ready",
    "find what the nodes have in common, such as a switch or the network",
  ),
  "control-plane": person(
    "another control-plane node is not Ready, has a mark, or is being fenced",
    "repair that node first",
  ),
  stuck: person(
    "pods or VolumeAttachments have not gone for five minutes",
    "look for finalizers on what the message names, and at the controller of the CSI driver",
  ),
  "node-finalizers": person(
    "the Node has finalizers, so that it cannot be deleted and made again",
    "let the controller that owns the finalizer end, or take the strategy off the Node",
  ),
  "backup-too-large": person("the backup of the Node is too large", "remove annotations that nothing needs"),
  "not-permitted": person(
    "a right is missing to delete the Node, to make it again, or to take the mark off its Machine",
    "give the account the rights that the message names",
  ),
  "record-unreadable": person(
    "another version wrote the record, or a part of it is missing",
    "run that version, or delete the record once you know that the machine is off",
  ),
  "slots-unreadable": person(
    "another version wrote the Lease of the slots, or a part of it is missing",
    "run that version, or delete that Lease",
  ),
};
