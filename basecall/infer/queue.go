package infer

import (
	"slices"
	"time"
)

// queue holds the requests that wait for a batch in two lines: those whose
// results somebody waits for, and those of producers that are patient. A third has
// windows that are shorter, for which somebody always waits: the last ones of reads.
//
// Each line is in the order in which its requests came. Between the lines the
// earlier due comes first, and what can wait is due by the patience later than
// what can't. So the last window of a read that has ended overtakes those of
// reads that go on, but none of these waits longer for it than the patience.
//
// Windows of a batch are of one length. A shorter one is due before patient ones, but by the
// patience later than others for which somebody waits: where reads are called from files there
// are always some of these, and meanwhile others of its length may come, as a batch of
// two costs a quarter to a third less than two of one. Where there is no whole batch
// of others it waits for nothing.
//
// Those of reads of files, at leisure, have a line of their own: nobody waits for them by themselves. They
// leave in whole batches of a length, or when so many have come after one that results in the order of
// reads wouldn't keep up with it, or when there is nothing else to do.
type queue struct {
	patience        time.Duration
	batch, leisure  int
	urgent, patient []*Request
	short           []*Request
	atLeisure       []*Request
	serial          int // of the next one at leisure
}

func (q *queue) len() int { return q.whole() + len(q.short) + len(q.atLeisure) }

// whole returns how many requests of the usual length wait.
func (q *queue) whole() int { return len(q.urgent) + len(q.patient) }

// add queues a request at the end of its line.
func (q *queue) add(req *Request) {
	if req.Short && req.Leisure {
		req.serial = q.serial
		q.serial++
		q.atLeisure = append(q.atLeisure, req)
		return
	}
	if req.Short {
		q.short = append(q.short, req)
		return
	}
	if req.producer.patient {
		q.patient = append(q.patient, req)
		return
	}
	q.urgent = append(q.urgent, req)
}

// take moves up to n requests of one length to batch, those that are due first.
func (q *queue) take(batch []*Request, n int) []*Request {
	if len(q.short) > 0 && (q.whole() < n || q.shortFirst()) {
		q.short, batch = takeLength(q.short, batch, n, len(q.short[0].Input))
		return batch
	}
	if length := q.leisureLength(); length > 0 {
		q.atLeisure, batch = takeLength(q.atLeisure, batch, n, length)
		return batch
	}
	if q.whole() == 0 && len(q.atLeisure) > 0 {
		q.atLeisure, batch = takeLength(q.atLeisure, batch, n, len(q.atLeisure[0].Input))
		return batch
	}
	u, p := 0, 0
	for u+p < n && u+p < len(q.urgent)+len(q.patient) {
		switch {
		case u == len(q.urgent):
			batch = append(batch, q.patient[p])
			p++
		case p == len(q.patient) || !q.patient[p].queued.Add(q.patience).Before(q.urgent[u].queued):
			batch = append(batch, q.urgent[u])
			u++
		default:
			batch = append(batch, q.patient[p])
			p++
		}
	}
	q.urgent, q.patient = slices.Delete(q.urgent, 0, u), slices.Delete(q.patient, 0, p)
	return batch
}

// shortFirst reports whether of all requests one that is shorter is due first.
func (q *queue) shortFirst() bool {
	queued := q.short[0].queued
	return (len(q.urgent) == 0 || queued.Add(q.patience).Before(q.urgent[0].queued)) &&
		(len(q.patient) == 0 || queued.Before(q.patient[0].queued.Add(q.patience)))
}

// takeLength moves up to n requests of a line that have so many samples to batch, the oldest first.
func takeLength(line, batch []*Request, n, length int) (rest, taken []*Request) {
	rest = slices.DeleteFunc(line, func(req *Request) bool {
		if n == 0 || len(req.Input) != length {
			return false
		}
		n--
		batch = append(batch, req)
		return true
	})
	return rest, batch
}

// leisureDue reports whether requests at leisure are to be computed now.
func (q *queue) leisureDue() bool { return q.leisureLength() > 0 }

// leisureLength returns the length of which requests at leisure are to be computed now: of the oldest, if too many have
// come after it, or one of which there is a whole batch; 0 for none. Few wait: one of each read in the works.
func (q *queue) leisureLength() int {
	if len(q.atLeisure) == 0 {
		return 0
	}
	if oldest := q.atLeisure[0]; q.serial-1-oldest.serial >= q.leisure {
		return len(oldest.Input)
	}
	for i, req := range q.atLeisure {
		n := 0
		for _, other := range q.atLeisure[i:] {
			if len(other.Input) == len(req.Input) {
				n++
			}
		}
		if n >= q.batch {
			return len(req.Input)
		}
	}
	return 0
}

// hurry moves the requests of a producer that is patient no more to the urgent
// line, among which they have their place by age.
func (q *queue) hurry(p *Producer) {
	moved := 0
	for _, req := range q.patient {
		if req.producer == p {
			q.urgent = append(q.urgent, req)
			moved++
		}
	}
	if moved == 0 {
		return
	}
	q.patient = slices.DeleteFunc(q.patient, func(req *Request) bool { return req.producer == p })
	slices.SortStableFunc(q.urgent, func(a, b *Request) int { return a.queued.Compare(b.queued) })
}

// drop takes out all requests that have a property.
func (q *queue) drop(unwanted func(*Request) bool) []*Request {
	var dropped []*Request
	for _, line := range []*[]*Request{&q.urgent, &q.patient, &q.short, &q.atLeisure} {
		*line = slices.DeleteFunc(*line, func(req *Request) bool {
			if !unwanted(req) {
				return false
			}
			dropped = append(dropped, req)
			return true
		})
	}
	return dropped
}

// oldest returns the age of the request that has waited longest, those at leisure aside; 0 if there is none.
func (q *queue) oldest(now time.Time) time.Duration {
	age := time.Duration(0)
	for _, line := range [][]*Request{q.urgent, q.patient, q.short} {
		if len(line) > 0 {
			age = max(age, now.Sub(line[0].queued))
		}
	}
	return age
}
