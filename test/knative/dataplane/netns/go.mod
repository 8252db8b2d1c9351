module sluice.dev/test/knative/dataplane/netns

go 1.26.0
