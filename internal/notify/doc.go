// Package notify sends alerts to people and other programs: by webhook and by mail.
//
// Each destination is a consumer group of its own on the alerts topic. So one that fails,
// hangs or answers late holds up nobody else, its place is kept by Kafka over restarts, and
// no more than a fetch of its partitions is in memory however long it is away. An alert's
// offset is committed once the destination has taken it: what was under way in a crash is sent
// again, with the id that it had. The alerts of a sample's rule are sent in order, one
// after the other.
package notify
