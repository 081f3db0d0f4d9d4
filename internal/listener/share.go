package listener

// Share divides what there is, such as file descriptors, among those who want some: each gets what it wants
// if there is enough, else in proportion, and at least one. total < 0 is as much as anybody wants.
func Share(total int, wants ...int) []int {
	sum := 0
	for _, w := range wants {
		sum += w
	}
	shares := make([]int, len(wants))
	for i, w := range wants {
		if shares[i] = w; total >= 0 && sum > total {
			shares[i] = max(1, int(int64(w)*int64(total)/int64(sum)))
		}
	}
	return shares
}
